// Written for headwise: stories and facts in plain sentences, with pronouns, names, numbers, lists
// and questions.
#include "headwise/text/sample_text.h"

namespace headwise {

std::string_view sample_text() {
  return R"(The harbour opened at five, long before the first ferry came in.
Marta counted the crates twice and wrote the number on the back of her hand.
There were forty-one of them, although the list said forty.
"Somebody has made a mistake," she said, "and I hope that it was not me."
Her brother laughed, because he had packed the crates himself.
He remembered the last one well: it held nothing but lemons.
The captain, who had never trusted either of them, asked for the papers again.
When the fog lifted, they could see the lighthouse and, behind it, the hills.
Gulls sat on the rail in a row and waited for bread.
No one gave them any, so they left one after the other.
The ferry took ninety minutes to cross the bay, or two hours in a storm.
Last winter it turned back three times in a single week.
People on the island learned to keep flour, candles and patience at home.
A clockmaker moved into the old school at the end of Mill Street.
She repaired watches in the morning and taught children in the afternoon.
What she liked best was a clock that ran backwards.
Its owner had brought it in years ago and never returned for it.
The children asked her why she did not simply turn the gears around.
She told them that some mistakes are worth keeping.
On Fridays the baker gave her the bread that he could not sell.
In return she wound the clock above his oven, which was always four minutes slow.
If the clock had been right, the rolls would have burned.
Nobody in the village knew this except the two of them.
The mayor thanked them both in a speech that lasted almost an hour.
How many people can a bridge carry?
The engineer answered that it depends on how they walk.
Soldiers are told to break step before they cross.
In 1850 a bridge fell because hundreds of feet struck it at the same time.
Since then, engineers have measured the sway of every long span.
A modern bridge moves a little in the wind, and it is meant to.
Steel grows longer in summer and shorter in winter.
For this reason the road has gaps that look like combs.
Drivers hear them as two short knocks under the wheels.
The oldest stone bridge in the valley has no gaps and no steel at all.
It was built by monks, paid for with wool, and widened only once.
Which of the two will stand longer, nobody can say.
Water boils at a lower temperature on a mountain than at the sea.
That is why beans take longer to cook up there, not less.
My aunt, a patient cook, solved the problem with a heavy lid and a stone.
She put onions, carrots and a little salt into the pot and left it alone.
Her soup was thick, brown and famous in three villages.
When the teacher came to visit, he ate four bowls and praised the fifth.
He wrote the recipe down, but he forgot the stone.
The soup that he made at home was thin, and he blamed the beans.
Anna gave Peter the key because he had lost his own.
Peter gave it back to her the next morning.
The dog that the neighbours had found slept in the kitchen.
The cats, which belonged to nobody, slept wherever they wanted.
A letter from the bank arrived on Monday, and another one on Tuesday.
Neither of them was good news.
The first letter said that the interest had risen by two percent.
The second one apologised for the first.
They decided to open the third letter together, with a glass of wine.
It came from the library and concerned a book that was eleven years late.
"Do we still have it?" asked the father.
"It is under the short leg of the table," said the daughter.
Without the book, the table would not stand.
With the table straight, nobody would remember the book.
They paid the fine, and the librarian let them keep it.
Bees tell each other where flowers are by dancing.
The angle of the dance shows the direction, and its length shows the distance.
A young bee watches several dances before she flies out for the first time.
If the sun moves, the dance changes with it.
A cloudy sky does not disturb them, since they see polarised light.
Beekeepers have known about the dance for a long time without understanding it.
The man who explained it received a prize when he was eighty-six years old.
His students say that he was stung more than four thousand times.
The train to the north leaves from platform nine at half past six.
It stops at every small station, even where nobody gets on or off.
The conductor knows most passengers by name and all of their dogs.
Once a month a woman in a red coat rides to the last station and back.
She never reads, she never sleeps, and she never looks at the sea.
The conductor has seen her for nine years and has asked her only once.
She said that she had promised somebody to come home by train.
Snow fell on the mountains in October, which surprised even the shepherds.
They brought the sheep down two weeks early and lost only three.
The smallest lamb travelled in a rucksack with its head in the open air.
By the time they reached the valley, it had eaten half of a woollen hat.
The hat had belonged to the oldest shepherd, who did not mind.
He had eleven more of them, all knitted by the same sister.
A good map leaves out almost everything.
It shows the roads to a driver and the depths to a sailor.
The one that hangs in the town hall shows neither, and it is very beautiful.
A painter made it two hundred years ago from stories that she had been told.
The river runs the wrong way, and the church is larger than the forest.
Visitors photograph it and then ask for directions.
The orchestra tuned for so long that part of the audience believed it was the concert.
The oboe gave the note, and the violins argued about it.
Then the conductor raised her hand, and eighty people stopped breathing.
The first chord was so soft that the heating could be heard.
Nobody coughed until the second movement.
Afterwards a boy in the front row said that he preferred the tuning.
Salt was once so precious that soldiers were paid with it.
Today we scatter it on roads and complain about the stains on our shoes.
Gold has kept its price, although one cannot eat it.
The museum closes at six, but the guard lets people stay if they are drawing.
He draws, too, on the back of old tickets, when it rains.
There are more than nine hundred of his drawings in a drawer.
The director found them by chance and hung thirty on the wall of the stairs.
Now the guard has to ask visitors not to touch his own pictures.
Every evening the lamplighter walked from the market to the river and back.
Children followed him as far as the fountain, where their parents called them in.
After the electric lamps had come, he went on walking, out of habit.
People set their watches by him, and he was never late.
Whether the walk kept him young, or whether he was simply healthy, no doctor could tell.
He lived to be a hundred and two and left his ladder to the school.
)";
}

}  // namespace headwise
