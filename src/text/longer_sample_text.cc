// Written for headwise: stories, facts, instructions, dialogue, news, letters, reviews, sport,
// science, law, software and history. Neighbouring lines often belong to one scene.
#include "headwise/text/sample_text.h"

namespace headwise {

std::string_view longer_sample_text() {
  // In pieces, because compilers may limit the length of one literal to 65,536 characters.
  return R"text(Once upon a time, in a small yellow house near the woods, there lived a girl named Tilly and her grey rabbit, Button.
Button had one ear that stood up and one ear that did not.
Every morning Tilly gave him a carrot, and every morning he hid it under her pillow.
"Why do you hide it?" she asked him one day.
Button did not answer, because he was a rabbit.
One night Tilly heard a tiny noise under her bed, and she was very scared.
She took her little lamp, looked under the bed, and saw a mouse with a carrot in its paws.
The mouse was thin and cold, and its tail was shaking.
"Oh!" said Tilly. "So the carrots are for you!"
From then on, she put out two carrots, one for the rabbit and one for the mouse, and nobody had to hide anything.
Tom had a big red ball that he loved very much.
He took it to the park, and he kicked it so hard that it flew over the fence.
On the other side of the fence there was a garden with a large brown dog in it.
The dog looked at the ball, and Tom looked at the dog.
"Please do not bite it," said Tom in a small voice.
The dog picked up the ball gently, walked to the gate, and put it down in front of Tom.
Tom was so happy that he forgot to be afraid, and he patted the dog on the head.
After that day, they played together every Saturday until it got dark.
There once was a cloud who did not want to rain.
All the other clouds rained when the wind told them to, but this one held on to every drop.
She grew bigger and darker and heavier, until she could hardly move across the sky.
Down below, a farmer looked up and sighed, for his beans were yellow and his well was almost dry.
"If I let go of my water, there will be nothing left of me," said the cloud.
An old swallow, who had crossed the sea nine times, flew up to her and laughed.
"You will fall, you will run to the river, you will reach the sea, and the sun will lift you up again," he said.
The cloud thought about this for a long time.
Then she let go of one drop, and then another, and soon the whole field was singing with rain.
The beans stood up, the well filled, and the farmer danced in his wet socks.
A week later, a small white cloud came over the hill, and the swallow knew her at once.
Mia and Ben were making a cake for their grandmother.
Mia broke the eggs, and Ben stirred the bowl until his arm hurt.
They did not have any sugar, so they used honey instead.
The cake came out flat and sticky, but it smelled wonderful.
Grandma took one bite, closed her eyes, and smiled.
"This is the best flat cake I have ever eaten," she told them.
A little train lived at the end of a long track, where it carried milk to the town and empty cans back home.
It dreamed of pulling golden carriages with kings and queens inside.
One winter the snow was so deep that the great express engine got stuck on the hill.
Nobody could move it, not even ten strong men with shovels.
The little train was light and narrow, and it went through the snow like a needle through cloth.
It brought hot tea and blankets to all the passengers, and among them, wrapped in a plain brown coat, was the queen.
She never told the little train who she was, but she drank three cups of milk and said that it was the finest in the land.
The moon was lonely because all the children slept when she was awake.
So she sent a thin beam of light through the window of a boy called Omar, who could not sleep.
"Are you lonely too?" whispered Omar.
The beam moved a little on the wall, as if it were nodding.
They played a game with shadows, and he made a bird, a wolf, and a very strange camel.
When his mother came in, Omar was fast asleep with his hands still folded into wings.
Lily found a shiny key in the grass, but she did not know what it could open.
She tried it in the front door, and it did not fit.
She tried it in the shed, in the old trunk, and even in her brother's money box.
"Maybe it is not for a door at all," said her brother, who was five and very wise.
He took the key and hung it in the apple tree, where it rang like a bell whenever the wind blew.
Once there was a bear who could count to three but no further.
He had three pots, three chairs, and three spoons, and so he was never confused.
Then, one spring, a fox moved into the cave next door and gave him a fourth spoon.
"How many spoons do you have now?" asked the fox.
The bear scratched his head, looked at the spoons, and thought until the sun went down.
"I have three spoons and a friend," he said at last.
The fox agreed that this was the right answer.
Sam was sad because his kite had a hole in it.
His sister cut a star out of blue paper and glued it over the hole.
Now it was the only kite in the village with a star, and it flew higher than before.
A very small frog wanted to see the ocean.
Her mother told her that the ocean was too far, too salty, and much too loud.
"I only want to look at it," said the frog, and she hopped away before breakfast.
She met a snail, who was going the same way but had left in March.
She met a heron, too, but she hid under a leaf and did not say hello to him.
When she came to the beach at last, she looked at the waves, and the waves looked very big.
"It is exactly as Mother said," she told the snail when she passed him on the way back, "and I am so glad that I saw it."
The detective arrived at a quarter to nine, shook the rain from her umbrella, and asked everyone to stay in the dining room.
Her name was Ines Calder, and she had not slept since Thursday.
Somebody had taken the silver compass from the glass case in the hall, yet the lock was not broken and the alarm had never sounded.
"Who has a key?" she asked.
"Only I do," said Mr. Ferris, the owner of the house, "and it has been on this chain around my neck since my father died."
Calder looked at the chain, then at the case, and then, for rather a long time, at the carpet.
A thin line of sawdust ran from the table to the window.
The nephew, a pale young man called Edmund, put his hands in his pockets.
His wife noticed that the detective had noticed.
She had married him in the spring, against the advice of an aunt who owned three hotels, and since then she had learned to watch his hands rather than his face, because his face, as she liked to say, had never told her anything.
"You have been building something," Calder said to him, not unkindly.
He admitted that he made model ships, that he worked on them at night, and that he had been in the hall at about two o'clock.
But he had not touched the compass; he had only wanted to measure the mast of the painted frigate above the fireplace.
The cook, whom nobody had asked, said that she had heard footsteps twice.
The first steps were slow, and the second were quick.
Calder lifted the case from the table, which surprised everyone, because they had all believed that it was screwed down.
There were four small holes in the wood, and there were no screws in them.
The thief had not opened the lid at all: he had raised the whole case, taken the compass from below, and set the glass back in its place.
"Then it was somebody tall," said Edmund, who was not.
"Or somebody patient," she replied, "with a screwdriver and a steady hand."
Mr. Ferris sat down slowly and asked whether he might have a glass of water.
Nobody moved, so the cook brought it.
His insurance, as Calder had learned that morning, would pay 18,000 pounds for the compass and nothing at all for the roof, which was leaking in six places.
When she told him this, he did not deny it; he only looked up at the ceiling.
The compass was found the same evening in a flower pot, wrapped in an oiled cloth.
Edmund finished his ship in the spring and gave it to the cook.
To make a simple flatbread, mix 300 grams of flour with a teaspoon of salt, two tablespoons of olive oil, and 170 millilitres of warm water.
Knead the dough for five minutes, until it is smooth and no longer sticks to your fingers.
Cover the bowl with a damp cloth and let it rest for half an hour.
Divide it into eight pieces and roll each of them out as thinly as you can.
Heat a heavy pan without any oil, because the bread should toast rather than fry.
Turn each piece over as soon as bubbles appear, and wrap the finished ones in a towel so that they stay soft.
If they crack when you fold them, the pan was not hot enough.
For the lentil soup, rinse one cup of red lentils under cold water until the water runs clear.
Fry a chopped onion gently in butter; it should turn golden, not brown.
Add two cloves of garlic, a pinch of cumin, and half a teaspoon of sweet paprika, and stir for about thirty seconds.
Pour in a litre of stock, bring it to the boil, and then lower the heat.
The lentils are done when they fall apart, which usually takes between fifteen and twenty minutes.
Squeeze half a lemon over the soup just before you serve it, never earlier.
Leftovers keep for three days in the refrigerator, and they taste even better on the second.
Never rinse a cast-iron pan with soap while it is new.
Before you change a bicycle tyre, let the remaining air out and shift the chain onto the smallest sprocket.
Loosen the axle nuts, lift the frame, and pull the wheel straight down.
Slide one tyre lever under the rim, hook it to a spoke, and work your way around with the second lever.
Once one side of the tyre is free, take out the tube and look for the hole.
If you cannot see it, hold the inflated tube under water and watch for bubbles.
Check the inside of the tyre, too, since the thorn that made the first hole is often still waiting to make the next one.
Roughen the rubber, spread a thin layer of glue, and wait until it is no longer shiny.
Press the patch on firmly for a full minute.
Do not inflate the tube completely until the tyre sits evenly on the rim, or it will be pinched.
How do you remove a stuck jar lid?
Tap the edge lightly against a wooden board, run hot water over it, or pull the rim away with the handle of a spoon until you hear the vacuum break.
Wipe the shelf, sand it along the grain with 120-grit paper, and remove every trace of dust.
Apply the varnish in thin coats and leave at least six hours between them.
A single thick coat looks tempting, but it will wrinkle.
The heart of an adult human beats roughly 100,000 times a day.
It is a muscle about the size of a fist, and it lies slightly to the left of the centre of the chest.
The right side pumps blood to the lungs, where it takes up oxygen, while the left side pumps it to the rest of the body.
Four valves keep the blood from flowing backwards.
When a doctor listens with a stethoscope, the sounds that she hears are those of the valves closing.
An octopus has three hearts, two of which serve the gills.
Its blood is blue, because the protein that carries oxygen in it contains copper instead of iron.
The blue whale is the largest animal known to have lived; even its tongue can weigh as much as an elephant.
Bats are the only mammals capable of true flight.
Flying squirrels, despite their name, only glide.
Breathing is the work of the diaphragm, helped by the muscles between the ribs.
Hiccups happen when the diaphragm contracts suddenly and the vocal cords snap shut.
Penguins live almost entirely in the Southern Hemisphere, although one species is found at the Galapagos Islands, close to the equator.
The platypus lays eggs and feeds its young with milk, which makes it, together with the echidnas, a member of a very small order.
When the first specimen reached Britain at the end of the eighteenth century, scholars suspected that someone had sewn it together.
Honey that is sealed and kept dry can last for many years without spoiling.
Sharks have no bones at all; their skeletons are made of cartilage.
The Greenland shark grows so slowly, and lives so long, that some animals alive today may have been born more than two centuries ago.
Trees do not grow from the bottom: a nail hammered into a trunk stays at the same height for as long as the tree stands.
Spiders are not insects, since they have eight legs and no antennae.
Light from the Sun needs a little more than eight minutes to reach the Earth.
Venus turns so slowly that one of its days, measured against the stars, is longer than its year.
Saturn is less dense than water, whereas the Earth is the densest planet in the solar system.
Jupiter's Great Red Spot is a storm that is wider than our whole planet.
The Moon always shows us the same face, because it turns once on its axis in the time that it takes to go around us.
Pluto, which was discovered in 1930, has been classified as a dwarf planet since 2006.
Sound cannot travel through a vacuum.
Ice floats because water expands when it freezes.
Diamond and graphite consist of the same element, carbon, and differ only in the way in which the atoms are arranged.
Helium was detected in the light of the Sun before it was found on Earth, and it is named after the Greek word for the Sun.
Mercury is the only metal that is liquid at room temperature and normal pressure.
Absolute zero lies at minus 273.15 degrees Celsius.
The speed of light in a vacuum is exactly 299,792,458 metres per second, because the metre is defined by it.
A kilowatt-hour is a unit of energy, not of power, though the two are often confused.
)text"
         R"text(The council of Westbrook voted on Tuesday to close the old swimming pool, citing repair costs of 2.4 million euros.
Seven members supported the motion, five opposed it, and one abstained.
Residents who had gathered outside the hall received the news with whistles.
"My children learned to swim here, and so did I," said Petra Lund, 52, who had collected more than 3,000 signatures.
The mayor promised that a new pool would be built by 2029 but declined to say where.
A spokesman for the finance department later confirmed that no money had been set aside for it.
In a statement that was read out at the end of the session, the swimming club said that it would go to court if necessary, that it had found a donor who was willing to cover a third of the costs, and that it would not give up.
The current building, which opened in 1968, loses about 40 cubic metres of water every day.
Shares of the shipping company fell by 6.3 percent after it reported its first quarterly loss in eight years.
Revenue dropped to $412 million, down from $467 million in the same period a year earlier.
Analysts had expected a decline, though not such a steep one.
The chief executive blamed higher fuel prices, two damaged vessels, and a strike that had paralysed the port for eleven days.
She added that the company did not plan to cut jobs before the end of the year.
Investors were not convinced.
A fire broke out shortly after midnight in a furniture warehouse on the eastern edge of the city.
Ninety firefighters needed five hours to bring it under control, and two of them were treated for smoke inhalation.
The cause is still being investigated; arson has not been ruled out.
Police are looking for the driver of a white van that was seen leaving the yard at about 12:20 a.m.
Anyone who noticed anything unusual is asked to call the station on Harbour Road.
Unemployment in the region fell to 5.1 percent in March, its lowest level since 2008.
Most of the new jobs were created in construction, health care, and logistics, whereas retail continued to shrink.
Economists warned against reading too much into a single month.
The bridge over the Arn will remain closed until at least 14 September, the ministry of transport announced on Friday.
Inspectors had found cracks in two of its six main beams during a routine check.
Around 22,000 vehicles, most of them commuters, used the bridge on an average weekday.
Drivers are advised to take the tunnel, where delays of up to forty minutes must be expected.
Voter turnout reached 71 percent, three points more than four years ago.
The Greens gained most in the cities, while the Farmers' Union held every one of its seats in the north.
Neither of the two large parties will be able to govern without a partner.
Talks are expected to begin next week, and nobody is willing to predict how long they will take.
A lorry carrying 18 tonnes of chocolate overturned on the motorway near Tarn on Monday morning.
The driver escaped with a broken wrist, but the road had to be scrubbed with hot water for nine hours.
Traffic was diverted through three villages, whose inhabitants complained less than usual.
Dear Ms. Okafor, thank you for your letter of 3 May, in which you ask about the delay of your order.
We are sorry that the two armchairs have not reached you yet.
According to our records, they left the warehouse on 22 April and were returned to us because the address was incomplete.
Could you please tell us the number of your flat and the floor on which you live?
As soon as we have this information, we will send the chairs again at no extra charge.
To apologise for the inconvenience, we enclose a voucher worth 25 pounds.
Yours sincerely, Martin Hale, Customer Service
Hi Jo, just a quick note before I get on the plane.
I left the spare keys with Mrs. Novak downstairs, and she knows that you are coming on Sunday.
The cat will tell you that she has not been fed; do not believe her.
Her food is in the tall cupboard next to the fridge, one scoop in the morning and half a scoop at night.
If the heating makes a knocking sound, turn the small valve under the window to the left, and it will stop.
Please do not water the cactus.
I owe you a very large dinner.
Love, Hannah
Subject: Minutes of the meeting on Thursday
Hello everyone, please find attached the minutes, the revised budget, and the list of open questions.
We agreed that Rosa will contact the printer, that Dev will check the invoices from last year, and that I will write the first draft of the proposal.
The deadline is Friday the 17th at noon, not at the end of the day.
If anything in the minutes is wrong, let me know before Wednesday; otherwise I will take your silence as approval.
Best regards, Lena
My dear grandson, your grandmother tells me that you have started to collect stamps, which pleased me more than I can say.
I am sending you twelve of mine, among them a blue one from Iceland that I bought with my first wages.
Keep them away from the light, and never lick them.
When you come in July, I will show you the rest, and you can explain to me how the telephone takes pictures.
Write back soon, and write by hand if you can, because I like to see how your letters are growing.
To whom it may concern: I rented the flat at 9 Canal Street from June 2017 to August 2021 and left it clean and undamaged.
My deposit of 1,450 euros has still not been returned, although I have asked for it three times.
Unless I receive the full amount within fourteen days, I shall take legal advice.
The tenant shall pay the rent in advance on or before the third working day of each month.
The landlord may not enter the premises without giving at least twenty-four hours' notice, except in an emergency.
Pets are not permitted unless the landlord has agreed in writing; such agreement shall not be unreasonably withheld.
Either party may terminate this agreement by giving three months' notice to the other.
Any dispute arising out of or in connection with this contract, including any question regarding its existence, validity, or termination, shall be referred to and finally resolved by arbitration.
The contractor shall not be liable for any delay that is caused by circumstances beyond its reasonable control, including floods, fires, strikes, and acts of government, provided that it informs the client without delay and takes all reasonable steps to limit the consequences.
The seller warrants that the goods are free from defects in material and workmanship for a period of two years from the date of delivery.
This warranty does not cover damage caused by improper use, by repairs that were not carried out by the seller, or by normal wear.
If one of these provisions is held to be invalid, the remaining provisions shall continue in full force.
Confidential information means any information that is disclosed by one party to the other and that is marked as such or would reasonably be understood to be confidential.
The buyer acknowledges that he has inspected the vehicle and accepts it in its present condition.
No amendment of this contract is effective unless it is made in writing and signed by both parties.
"Does that mean that I cannot sell it to my cousin?" the old man asked.
"You can sell it to whomever you like," his lawyer told him, "but you must offer it to your neighbour first."
He thought of his neighbour, who had once cut down his pear tree, and he tore the paper in half.
The court found that the defendant had acted in good faith and dismissed the claim.
The judge noted, however, that he could have avoided the whole dispute with a single telephone call.
A witness is not allowed to guess; she may only report what she has seen or heard herself.
In many legal systems, a person who is accused of a crime is presumed innocent until proven guilty.
An appeal must be lodged within thirty days after the judgment has been served.
The jury, which had deliberated for four days, could not agree on a verdict.
Copyright protects the expression of an idea but not the idea itself.
The film begins with a man who is digging a hole, and for the first twenty minutes we are not told why.
It is a slow opening, but it pays off.
The director trusts her actors, her landscape, and, above all, our patience.
What could have been a conventional thriller becomes a study of two brothers who have forgotten how to talk to each other.
The younger one is played by a newcomer with astonishing calm; his older partner, by contrast, shouts a little too often.
There is one scene, about an hour into the film, in which the two of them try to carry a wardrobe down a narrow staircase, and in those three minutes, without a single word of explanation, we learn everything that we need to know about their childhood.
The music is beautiful, but there is far too much of it.
I left the cinema with wet eyes and a list of questions, and I have thought about the last shot every day since.
Four stars out of five.
Do not waste your money on this sequel.
The jokes are old, the story makes no sense, and the dog, who was the best thing about the first film, appears for less than a minute.
Even the explosions look tired.
My daughter, who is nine and laughs at everything, asked me twice when it would be over.
I bought this kettle in January, and it has already stopped working.
It boiled water quickly and looked good on the counter, but the lid never closed properly, and after ten weeks the switch broke off.
The customer service was friendly, I have to admit, and they refunded the full price of 39.99 within a week.
Would I buy it again? Certainly not.
These are the most comfortable boots that I have ever owned.
I walked 25 kilometres in them on the very first day and did not get a single blister.
They run slightly small, so order half a size larger than you normally would.
The only drawback is the laces, which come undone unless you tie a double knot.
The headphones sound clear and balanced, the battery lasts for about thirty hours, and they fold into a case that fits in a coat pocket.
On the other hand, the noise cancelling is no match for that of more expensive models, and the microphone is useless in the wind.
For the price, however, you will not find anything better.
The vacuum cleaner arrived without its charger, so I cannot say anything about it yet.
We had booked a table for eight o'clock and were seated at a quarter to nine, next to the kitchen door.
The waiter apologised, brought us olives, and then vanished for half an hour.
But the food!
The scallops were sweet and barely cooked, the lamb fell off the bone, and the lemon tart was the best that I have eaten outside Sicily.
My husband, who does not like fish, finished mine.
With a bottle of the house wine we paid 118 euros for two, which is not cheap but, considering the quality, more than fair.
We will certainly return, though perhaps on a Monday.
The soup was cold, and so was the welcome.
When I mentioned a hair on my plate, the owner asked me whether I was sure that it was not my own.
I was quite sure, since I am bald.
The hotel lies two minutes from the station, and you can hear every train.
Our room was clean, bright, and roughly the size of a wardrobe.
Breakfast is included and generous: fresh rolls, four kinds of jam, eggs to order, and coffee that deserves its own review.
The staff could not have been kinder when our son lost his first tooth in the swimming pool and insisted on looking for it.
They found it, by the way.
The novel tells the story of three generations of glassblowers on a small island, from the last years of the republic to the great flood.
Its author knows everything about glass and wants us to know it, too.
Readers who skip the chapter about furnaces will miss the key to the ending.
The translation reads smoothly, apart from a few places in which the dialogue sounds more like 1990 than 1790.
It is not a perfect book, but it is a generous one.
Rovers came from two goals down to beat Athletic 3-2 on Saturday in front of 24,310 spectators.
Athletic took the lead in the ninth minute, when Duarte headed in a corner that the goalkeeper should have caught.
Eleven minutes later he scored again, this time with his left foot from outside the box.
"At half-time nobody shouted," said the Rovers coach afterwards, "because nobody had any breath left."
Whatever he told them instead, it worked.
Lindgren pulled one back with a penalty, Mensah equalised from close range, and in the fourth minute of added time the substitute Kovac, who is only seventeen, curled a free kick over the wall and into the net.
Rovers are now fourth, level on points with City but with a better goal difference.
She won the first set 6-4, lost the second in a tie-break, and was trailing 2-5 in the third when the rain came.
After a break of three hours, she returned to the court and did not lose another game.
Her opponent, who had served for the match twice, hit her racket against the bench and then apologised to it.
The marathon was won by a postman from the mountains in 2 hours, 11 minutes, and 42 seconds.
He had never run more than thirty kilometres before, except at work.
The home side needed 14 runs from the last over and got 15 of them.
With only two days between games, the trainer rested five regular players and still won by eighteen points.
The relay team dropped the baton at the second exchange, picked it up, and finished last to the loudest applause of the evening.
No rider had attacked before the final climb, so forty of them reached the foot of the mountain together.
Three kilometres from the summit, the road rose to fourteen percent, and the group fell apart like wet paper.
The champion, who had looked unbeatable all week, cracked first.
A swimmer must touch the wall with both hands at every turn in breaststroke and butterfly.
In chess, a pawn that reaches the far side of the board may become a queen, a rook, a bishop, or a knight.
A marathon is 42.195 kilometres long.
Basketball was invented in 1891 by a teacher who needed an indoor game for the winter and nailed two peach baskets to a balcony.
)text"
         R"text(The parser reads one token at a time and never looks back.
If the file does not exist, the function returns an error instead of an empty list.
Install the package, restart the service, and check the log for warnings.
By default, the server listens on port 8080; you can change this with the option --port.
The cache holds at most 512 entries and discards the one that has not been used for the longest time.
A pointer that has been freed must not be read again, not even to print it.
Version 2.3 fixes a bug that could corrupt the index when two processes wrote to it simultaneously.
Users who upgrade from 1.x must run the migration script first, since the format of the configuration file has changed.
The script makes a backup, converts every table, and verifies the number of rows before it deletes anything.
"It works on my machine," Nadia wrote in the ticket.
"Then we will have to ship your machine," Piotr answered.
She laughed, but she also added a test, and the test failed.
The reason turned out to be a time zone: the server believed that it was in Lisbon, while the database believed that it was nowhere in particular.
They fixed it in one line and spent the rest of the afternoon explaining that line in a comment.
Two weeks later, when the clocks changed, the comment saved them.
A hash table finds an entry in constant time on average, but in the worst case it has to look at all of them.
Sorting a list of n elements by comparison takes at least on the order of n log n steps.
Binary search only works if the data are sorted, which people tend to forget.
Recursion is a way of solving a problem by solving smaller copies of it until one of them is trivial.
The compiler warned about an unused variable, and, for once, the warning was the whole story.
What happens if the connection is lost during the upload?
The client waits for one second, tries again, doubles the waiting time after each failure, and gives up after the sixth attempt.
Passwords are never stored in plain text; only a salted hash of each is kept.
Do not commit generated files to the repository.
Please describe what you expected, what happened instead, and which steps are necessary to reproduce it.
The button labelled "Save" does not save anything until the form is valid, and nothing on the screen tells the user why.
We measured a latency of 12 milliseconds at the median and 340 milliseconds at the 99th percentile.
Most of that time was spent waiting for a lock that protected a counter nobody read.
Because the counter was updated by every thread on every request, and because the lock was fair, so that each thread had to wait for its turn, adding more processors, as the team had done twice already, made the service slower instead of faster.
After the lock had been removed, throughput rose by 38 percent.
A backup that has never been restored is only a hope.
The printer is out of paper, although its display insists that the door is open.
Press and hold the power key for ten seconds, release it, and wait until the green light stops blinking.
Each packet carries the address of its sender, the address of its receiver, and a number by which the pieces can be put in order.
A neural network is trained by comparing its output with the desired answer and changing each weight slightly in the direction that makes the error smaller.
The model had learned to recognise the hospital rather than the disease, because every hospital printed its name in the corner of the picture.
Correlation does not imply causation.
The researchers divided 240 volunteers at random into two groups, one of which received the drug and the other a placebo.
Neither the patients nor the doctors knew who was taking which.
After twelve weeks, symptoms had improved in 58 percent of the treated patients, compared with 41 percent in the control group.
The difference was statistically significant (p = 0.008), but the authors caution that the study was small and short.
They also point out that more than a fifth of the participants dropped out before the end, that most of those who stayed were women over fifty, and that it is therefore unclear whether the result would hold for younger patients or for men.
The most common side effects were headache, nausea, and dry mouth.
Larger trials are needed before the treatment can be recommended.
Take one tablet twice a day with a glass of water, preferably after a meal.
Do not drive or operate machinery if you feel dizzy.
If you miss a dose, do not take a double one the next time.
Antibiotics act against bacteria and are useless against viruses such as those that cause the common cold.
A vaccine shows the immune system a harmless part or a weakened form of a pathogen, so that it can recognise the real one later.
Scurvy, from which countless sailors died, is caused by a lack of vitamin C.
The bones of an adult are 206 in number, whereas a newborn has more, because some of them grow together later.
The smallest of them, the stirrup, is found in the middle ear.
Wash the wound with clean water, press a sterile cloth on it until it stops bleeding, and see a doctor if the edges do not close.
"How long have you had this cough?" asked Dr. Amari.
"Since the wedding," said the patient.
"And when was the wedding?"
"It has not taken place yet; we have been planning it since February."
She listened to his lungs, found nothing, and prescribed a smaller guest list.
Blood pressure is given as two numbers, of which the higher one is measured when the heart contracts.
The patient, a 63-year-old woman with a history of diabetes, was admitted with chest pain that had begun two hours earlier.
Her pulse was 104, her temperature was normal, and she denied any shortness of breath.
An electrocardiogram was performed immediately and showed no acute changes.
She was kept under observation overnight and discharged the next day in good condition.
A fever is not a disease but a defence.
The kidneys of a healthy person filter around 180 litres of fluid a day, almost all of which returns to the blood.
Sleep is divided into stages, and most vivid dreams occur in the one in which the eyes move rapidly.
Plants take in carbon dioxide and water and, with the help of light, turn them into sugar and oxygen.
The green colour of leaves comes from chlorophyll, which absorbs red and blue light and reflects more of the green.
In autumn it is broken down, and yellow pigments that were there all along become visible.
Earthquakes cannot be predicted precisely, but the regions in which they are likely are well known.
The plates of the Earth's crust move about as fast as fingernails grow.
Where two plates collide, mountains rise; where they part, new sea floor is formed.
The deepest known place in the ocean, the Challenger Deep, lies nearly eleven kilometres below the surface.
Mount Everest would fit into it with room to spare.
Glaciers and ice sheets store more than two thirds of the fresh water on our planet.
Tides are caused mainly by the Moon and, to a lesser extent, by the Sun.
A rainbow appears only when the Sun is behind you and the rain is in front of you.
Lightning heats the air around it to a temperature several times higher than that of the surface of the Sun.
The expanding air is what we hear as thunder.
Count the seconds between the flash and the thunder, divide by three, and you have the distance in kilometres, more or less.
Genes are made of DNA, a molecule in the shape of a twisted ladder, whose rungs are pairs of four different bases.
Identical twins share almost all of their genes, and yet their fingerprints differ.
Acids taste sour, bases feel slippery, and neither should be tested that way.
The periodic table orders the elements by the number of protons in the nucleus.
When it was published in 1869, it contained gaps, and the elements that filled them were discovered later.
Iron rusts only in the presence of both water and oxygen.
Energy can be neither created nor destroyed; it merely changes its form.
A lever allows a small force to move a heavy load, provided that it acts over a longer distance.
Why is the sky blue?
Because the molecules of the air scatter short waves of light more strongly than long ones, so that blue reaches us from every direction.
At sunset the light travels a longer way through the air, and what is left of it is mostly red.
A triangle with sides of three, four, and five units has a right angle.
There are infinitely many prime numbers, as Euclid proved more than two thousand years ago.
The only even prime is two.
If you toss a fair coin ten times and it lands on heads each time, the chance of heads on the next toss is still one half.
In a group of twenty-three people, it is more likely than not that two share a birthday.
A proof is an argument that leaves no room for doubt, although it may leave plenty of room for confusion.
Zero was used as a number in India long before it was accepted in Europe.
The Great Wall of China was not built at one time but in sections, over many centuries and under several dynasties.
The printing press with movable metal type was introduced to Europe by Johannes Gutenberg around the middle of the fifteenth century.
Movable type had been invented in China some four hundred years before that, by a man named Bi Sheng, who baked his letters out of clay.
In 1666 a fire that had begun in a bakery destroyed a large part of London.
It burned for four days and left tens of thousands of people without homes.
The French Revolution began in 1789, and within a few years it had abolished the monarchy, introduced a new calendar, and executed many of those who had started it.
Napoleon was not unusually short for his time.
The Berlin Wall, which had divided the city since 1961, was opened on the evening of 9 November 1989.
The first aeroplane flight of the Wright brothers, on 17 December 1903, lasted twelve seconds.
Less than sixty-six years later, two people walked on the Moon.
The Rosetta Stone carries the same decree in three scripts, and that is why it could be used to decipher hieroglyphs.
It was found in 1799 by soldiers who were repairing a fort.
Ancient Rome was supplied with water by eleven aqueducts, parts of which are still standing.
Concrete made by Roman builders has survived in sea water for two thousand years.
Tea reached Europe in the seventeenth century and was at first sold as a medicine.
The word "salary" goes back to the Latin word for salt.
In 1815 the volcano Tambora erupted, and the following year became known in Europe and North America as the year without a summer.
Crops failed, prices rose, and snow fell in New England in June.
Marie Curie was the first person to receive two Nobel Prizes, one for physics and one for chemistry.
Her notebooks are still so radioactive that they are kept in boxes lined with lead.
The telegraph made it possible, for the first time in history, to send a message faster than a person could carry it.
When the Eiffel Tower was opened in 1889, many artists hated it, and it was supposed to stand for only twenty years.
The Library of Alexandria did not vanish in a single night; it declined over a long period.
In the Middle Ages, spices came to Europe by ship and camel through the hands of many traders, each of whom raised the price.
The bicycle gave women in the 1890s a freedom of movement that few of them had known before.
Until 1752, Great Britain used a calendar that was eleven days behind that of most of its neighbours.
The Hanseatic League, an association of merchants and trading towns, dominated the commerce of the Baltic Sea for about three hundred years.
It had neither a king nor a standing army.
Ada Lovelace wrote notes on a machine that had never been built, and in them is a program that it could have run.
The potato was brought to Europe from the Andes and distrusted for two centuries before it became indispensable.
The village of Sorrel lies on a ridge between two rivers, and for most of its history it belonged to neither of the counties that claimed it.
Its church dates from the twelfth century, its school from the nineteenth, and its only traffic light from last Tuesday.
In the old chronicle we read that the people of Sorrel once sent a goose to the king instead of their taxes.
The king, who was amused, kept the goose and doubled the taxes.
It is said that the messenger, who had been told to return with a receipt, waited for six days in the royal kitchen, learned how to make a sauce with cherries and pepper, and came home without the receipt but with a profession.
Every year on the first of May, a goose is led through the streets, fed with barley, and set free.
"Nobody has ever been able to tell us whether this celebrates the goose or mocks the king," says Mrs. Arden, who looks after the archive.
She is eighty-one, climbs the tower every morning, and refuses to use the new railing.
Her archive consists of four rooms, nine hundred boxes, and one chair.
A student from the university came to photograph the documents last summer.
He meant to stay a week, but he stayed until October, because he had discovered that half of the boxes were labelled in a secret alphabet.
Mrs. Arden watched him struggle with it for a month before she told him that it was simply her grandfather's handwriting.
He forgave her, and she taught him to read it.
Together they found a letter in which the goose is mentioned for the first time, and it turned out that it had been a swan.
They have not told anyone yet.
)text"
         R"text(We reached the pass at noon, three hours later than planned.
The wind was so strong that we had to shout, although we stood right next to each other.
Yusuf wanted to turn back, Clara wanted to go on, and I wanted to sit down.
In the end we did all three: we sat behind a rock, ate the last of the cheese, went on for a hundred metres, and turned back.
The hut was full when we got there, but the warden found us a corner under the stairs.
She had run the place alone since her husband's knee had given out, she told us while she stirred an enormous pot.
"Where does the water come from?" asked Clara.
"From the glacier, as long as there is one."
During the night the wind dropped, and in the morning the whole valley lay under a white sea of cloud.
Yusuf took so many photographs that his battery died before the sun was fully up.
None of them shows what it was like.
What I remember, apart from the cold and the light, is that for a long while nobody spoke, that somewhere below us a bell was ringing, and that Clara, who never admits to being moved by anything, asked me whether I had something in my eye, too.
The old town can be explored easily on foot, but wear sturdy shoes, because the lanes are steep and paved with round stones.
Trams run every seven minutes until midnight, and a day ticket costs 6.40.
Buy it before you get on, since the drivers do not sell any.
The cathedral is open daily from nine to six, except on Sunday mornings, when only those who wish to attend the service are admitted.
Behind it, in a courtyard that most visitors miss, stands a fig tree that is said to be older than the walls.
If you have only one day, spend the morning at the market, the afternoon on the ramparts, and the evening anywhere with a view of the river.
Avoid the restaurants on the main square, where the menu comes in eleven languages and the fish comes from the freezer.
Lisbon, like Rome, is said to be built on seven hills.
Istanbul lies on two continents.
Iceland has no railways, and Greenland has no roads between its towns.
The Nile and the Amazon are the longest rivers on Earth, and which of them comes first depends on how one measures.
Lake Baikal in Siberia is the deepest lake in the world and holds about a fifth of all unfrozen fresh water at the surface.
Canada has a longer coastline than any other country.
Japan consists of thousands of islands, but most of its people live on the four largest ones.
The Sahara is roughly as large as the United States, and only a part of it is covered with sand.
In Finland there are more saunas than cars, or so every guide will tell you.
Australia is the only continent without an active volcano on its mainland.
The train across Siberia from Moscow to Vladivostok takes about a week, and passengers have to reset their watches again and again.
Venice stands on more than a hundred small islands that are joined by some four hundred bridges.
Have you ever been to the sea in winter?
The beach huts are locked, the ice cream stands are boarded up, and the gulls look at you as if you owed them something.
But the light is clearer than in any summer, and you can walk for an hour without stepping over a single towel.
My sister and I go there every January, on the weekend that is closest to our father's birthday.
He taught us to skip stones, and he cheated.
We take a thermos, two blankets, and the flat stones that we have collected during the year.
She always wins.
Tomorrow will be mostly cloudy, with light rain in the west that will spread to all regions by the evening.
Temperatures will range from 7 degrees on the coast to 12 in the south.
Strong gusts are possible above 1,000 metres.
On Thursday it will brighten up from the north, but the nights will stay cold, and ground frost cannot be excluded.
The weekend looks dry.
Forecasters have issued a warning for the islands, where waves of up to six metres are expected.
It rained for nineteen days without a break, and on the twentieth the river stopped being polite.
It came over the meadow first, then over the road, and at last, quietly, under the kitchen door.
Grandfather lifted the piano onto four bricks and played until the water reached the pedals.
When the boat arrived, he handed the photographs to the fireman, then the cat, and only then his wife.
She has reminded him of the order ever since.
The drought had lasted so long that the children drew the sky in yellow.
A single storm in August brought more rain than the seven months before it.
Most of it ran off the hard ground without soaking in.
The farmer, whose wheat had already failed, planted turnips and hoped.
By December she had more turnips than anybody wanted to eat, and the school served them in nine different ways.
"Excuse me, is this seat taken?"
"Not unless you count my hat."
"I would not dream of sitting on it."
He moved the hat to his knee, and she sat down, and for twenty kilometres neither of them said another word.
Then the train stopped in the middle of a field.
"It does this every Wednesday," he explained, "on account of the cows."
"You take this train every Wednesday?"
"I used to teach in Malby; now I only go there to return books and borrow new ones."
"My mother was a librarian in Malby," she said slowly.
He looked at her for the first time, at the small scar on her chin and the way she held her gloves.
"Then you must be Ruth, who bit me in 1974."
Outside, one of the cows lay down.
It gave them another forty minutes, and they needed all of them.
"What time does the shop close?" the boy asked.
"It closed ten minutes ago," said the woman behind the counter, "but you look like an emergency."
He needed candles, one for each year, and his grandmother was going to be ninety-three.
She had eighty-eight in the drawer and five more on her own kitchen table.
"Tell her that the last five are from me, and that they have been used, but only for thinking."
Can you hear me now?
No, I said Tuesday, not Thursday.
Well, that depends on what you mean by "finished".
If I were you, I would not mention it at all.
"Nobody told me," Viktor said, "and if somebody had told me, I would not have listened."
"Which one do you want?" "The other one."
"You never asked me whether I wanted to move," she said, and she put the box down exactly where she stood.
He had no answer to that, so he opened the window, and the noise of the street came in like a third person.
"Is that a promise or a threat?" asked the goalkeeper.
"Why on earth would anybody paint a ceiling black?" "So that you look at the floor, madam."
Sit, stay, and please stop eating my shoe.
The committee has considered all 46 applications and regrets that it can support only nine.
Yours was not among them, but several members asked me to tell you that it was the one they talked about longest.
Consider applying again next year with a smaller budget and a shorter title.
Professor Lindqvist found the note in his letterbox, read it twice, and put it between the pages of the dictionary, next to "hubris".
His assistant, Amara, found it there in June.
She rewrote the proposal over the summer, cut the title to four words, and sent it off under both of their names.
When the money came, he told everyone that it had been her idea, which was true, and that he had known nothing of it, which was not.
The experiment itself took two years and produced a result that neither of them had expected: nothing.
"Nothing is a result," Amara said firmly.
They published it, and it has been cited more often than anything else that he has ever written.
The ant that finds food leaves a trail of scent on its way home.
Others follow the trail, strengthen it, and so the shortest path soon smells the strongest.
When the food is gone, the scent fades, and the colony forgets.
No single ant knows the map.
Wolves do not howl at the moon; they howl to find one another.
A cuckoo lays her egg in the nest of a smaller bird, who raises the chick as if it were its own.
The chick, blind and naked, pushes the other eggs over the edge soon after it has hatched.
Salmon return to the river in which they were born and recognise it by its smell.
An elephant cannot jump.
Crows remember human faces, and they appear to tell one another about the unpleasant ones.
The arctic tern spends most of its life in summer, flying from the far north to the far south and back again each year.
Cows have best friends and become restless when they are separated.
Snails can seal their shells and sleep through months of drought.
The male seahorse carries the eggs in a pouch until the young are ready to swim.
Owls cannot move their eyes, and so they have to turn their heads instead.
Coral looks like a plant, feels like a stone, and is in fact a colony of animals.
Some bamboos flower only once in several decades and die soon afterwards.
Mushrooms are more closely related to animals than to plants.
The banana, botanically speaking, is a berry, but the strawberry is not.
Vanilla is the fruit of an orchid, and outside its home it usually has to be pollinated by hand.
A boy named Edmond Albius, who lived in slavery on the island of Reunion, worked out in 1841 how this could be done quickly with a thin stick.
Chocolate was drunk for thousands of years before anybody thought of eating it in bars.
Saffron is the dried stigma of a crocus, and more than a hundred flowers are needed for a single gram.
Coffee plants are native to Ethiopia and the regions around it.
Bread rises because yeast turns sugar into alcohol and gas, and the gas is trapped in the dough.
The alcohol evaporates in the oven.
Onions make us cry because cutting them releases a gas that irritates the eyes.
Cheese was probably discovered by accident, when milk was carried in a bag made from the stomach of an animal.
A tomato is a fruit to the botanist and a vegetable to the cook.
In 1893 the Supreme Court of the United States had to decide the question, because vegetables were taxed and fruits were not.
It sided with the cook.
)text"
         R"text(Nora had been the night nurse on Ward Six for so long that she could tell by the sound of the lift who was in it.
At ten past three it was the new doctor, who always pressed the button twice.
"Bed four cannot sleep," she told him, "and bed seven will not stop."
He smiled, rubbed his eyes, and asked whether there was any coffee.
There was, but it had been made on the previous day.
Bed four was Mr. Halloran, a retired signalman who missed the trains.
He said that the silence in the hospital was the wrong kind of silence.
The doctor offered him a pill; Nora offered to open the window.
From the window one could hear, very faintly, the goods yard on the other side of the canal.
Mr. Halloran listened with his mouth half open, counted the wagons, and was asleep before the last one had passed.
"You will not find that in the textbooks," said the doctor.
"You will not find me in them, either," said Nora, and she went to see to bed seven.
Bed seven was a girl of eleven with a broken leg, who was writing a novel about a horse.
The horse was a spy, and it had been captured in chapter nine.
"How does it get out?" asked Nora, tucking in the blanket.
"It does not get out," the girl said sternly, "because it wants to be there."
At six the day shift came in, smelling of rain and toothpaste, and Nora handed over the keys, the charts, and the horse.
When the orchard was sold, nobody thought of asking what would become of the ladder.
It was eleven metres long, made of ash, and had been repaired so often that hardly a rung was original.
Josef had inherited it from an uncle who was afraid of heights.
The new owner, a company with an office in the capital, wanted to build forty-two flats with underground parking.
A young woman in a yellow helmet came to measure the ground, and Josef offered her an apple.
She ate it, core and all, and asked him the name of the variety.
He told her that it had none, as far as he knew, and that there were only three such trees left.
She went back to her car and made a telephone call that lasted for almost an hour.
She had studied in three countries, had built a tunnel, a school, and half of an airport, and had never in her life, as she confessed to him later, seen an apple tree that was older than the street in which it stood.
In the final plan there are thirty-nine flats, a slightly smaller garage, and a courtyard with three old trees in it.
The ladder hangs in the stairwell, where visitors take it for art.
Josef lives on the ground floor, and every autumn he takes it down.
The violin had no label, no case, and only two strings.
Leila bought it at a flea market for fifteen euros because of the curve of its neck.
Her teacher turned it over in his hands, held it up to the lamp, and went very quiet.
"Do not play it, do not clean it, and do not tell your cousin about it," he said.
Her cousin, who sold cars, already knew.
Three experts examined the instrument in the following month.
The first said that it was worth nothing, the second that it was priceless, and the third that both of his colleagues were drunk.
It was, they agreed in the end, a good copy made in Bohemia around 1880, for which a dealer would pay perhaps four thousand.
Leila had it repaired instead, and it ate up all of her savings.
On the evening when she first played it, her cousin came, sat in the last row, and cried so loudly that he had to be taken outside.
He has never admitted it.
Captain Brandt lowered the telescope and swore under his breath.
The ship on the horizon showed no flag and no lights, and she was not moving.
"Shall we change course, sir?" asked the mate.
"We shall not," said Brandt. "A ship that does not move has either nothing to fear or nobody left to fear it."
They came alongside an hour before sunset.
The deck had been scrubbed, the ropes had been coiled, and a kettle was singing on the stove in the galley.
There was no one on board.
In the log, the last entry was dated that very morning, and it read: "Wind light, all well, visitors expected at dusk."
The mate, a sensible man who feared only God and his mother-in-law, asked for permission to return to the boat.
It was refused, although with less conviction than usual.
Then a hatch opened, and a voice said, "You are early."
Eleven men and a woman climbed out of the hold, where they had been trying, as she explained, to rescue a piglet from the bilge.
The piglet was called Admiral, and it was served milk at the captain's table for the rest of the voyage.
The Robinsons' garden had been at war with the moles for six years.
Mr. Robinson had tried smoke, garlic, music, and a machine that hummed.
The moles seemed to like the music.
His wife, who thought that the whole business was beneath him, suggested that he simply give up the lawn and grow potatoes.
"That would be surrender," he said.
She shrugged, bought a sack of seed potatoes, and planted them herself while he was at the dentist.
The earth in the molehills turned out to be the finest in the county.
At the autumn show she won first prize for a potato that weighed 1.3 kilograms and looked, from the side, a little like her husband.
He carried the cup home under his coat.
The moles, satisfied, moved on to the vicarage.
Ever since the lift had broken down, the people in Tower B had got to know one another.
Those from the ninth floor rested on the fifth, where Mrs. Abioye had put two chairs and a plate of biscuits on the landing.
The student from the eighth carried shopping for anyone who asked, and he was paid in soup.
Somebody hung a notebook on the wall so that people could write down what they needed from the shop.
By the third week it contained recipes, a poem, two proposals of marriage (both of them jokes, as it later turned out), and a long argument about the correct way to fold a fitted sheet.
When the engineers finally arrived with the new motor, they found a petition taped to the door.
It asked them, politely, to take their time.
My first day at the bakery began at two in the morning and ended with a burn on each hand.
Old Karim, who had been there for thirty-four years, did not waste words.
"Flour there, water there, mistakes over there," he said, and pointed to a bin.
By five o'clock the bin was half full, and I had learned that dough can sulk.
He never once raised his voice, but whenever I did something stupid he began to hum.
At the end of the week he stopped humming, and I was prouder than I have been of any diploma.
The spelling contest was down to three children: Priya, who closed her eyes; Jonah, who wrote on his palm with his finger; and a very small boy called Ulf.
"Rhythm," said the judge.
Jonah left out the first h, slapped his forehead, and sat down next to his mother.
Priya spelled "necessary" and "accommodate" without a pause, and then she stumbled over "separate".
All eyes were on Ulf, who had not made a single mistake and did not seem to be enjoying himself.
His last word was "giraffe".
He opened his mouth, looked at Priya, and spelled it with two g's.
Years later, at their wedding, she accused him in front of a hundred guests of having done it on purpose, and he spelled his answer: n, o.
Elena missed the bus because she had gone back for her umbrella, and then it did not rain.
She walked instead, along the canal, past the brewery and the place where the heron stands.
The heron was standing there.
A man in a rowing boat was talking to it in a low voice, as one talks to a colleague.
"He never answers," he said when he noticed her, "but he has never interrupted me, either."
Elena was twenty minutes late for work, and for the first time in five years she did not apologise.
The lighthouse keeper's daughter learned to read from the backs of tins.
She knew the words "peaches", "condensed", and "best before" long before she knew her own name on paper.
Supplies came once a month, weather permitting, and in February it rarely did.
If the boat could not land, the sailors threw the sacks onto the rocks, one after another, between two waves, and the family ran down to drag them above the line of the weed before the sea, which was quicker than all of them, changed its mind.
Her mother taught her the stars, her father taught her knots, and the radio taught her French.
At sixteen she took the boat to the mainland, alone, to sit an examination for which nobody had prepared her.
The examiners asked her to describe her home in two hundred words.
She described the sound, and they gave her the scholarship.
Three brothers inherited a mill, a donkey, and a debt.
The oldest took the mill, the second took the donkey, and the youngest was left with the debt.
He went to the moneylender, bowed, and asked how long he might keep it.
"Keep it?" cried the moneylender, who had never heard such a question.
"It is all that I have from my father," said the youngest, "and I intend to look after it."
The moneylender laughed until he had to hold on to the door, and then, because he had not laughed in eleven years, he tore the paper up.
The youngest was heartbroken.
To comfort him, his brothers gave him half of the mill and the front end of the donkey.
A king once offered a reward to anyone who could tell him something that he did not know.
Scholars came with books, sailors came with maps, and a gardener came with empty hands.
"Your Majesty," said the gardener, "the roses under your window have been dead since May."
The king went to the window and looked.
"Why has nobody told me?"
"Because you have never asked about anything that you already owned."
Long ago, when the mountains were still soft, a giant sat down on one of them to take off his boot.
That is why it is flat on top, as anyone can see.
There was a stone in the boot, and he threw it over his shoulder into the sea, and people built a town on it.
My grandmother, who told me this, was born in that town.
Whenever the ground shook a little, she would look up from her knitting and say, "He wants it back."
)text"
         R"text(One day a little duck named Pip went for a walk in the rain.
He had new yellow boots, and he jumped in every puddle that he could find.
Splash, splash, splash!
"Pip, you are all wet!" said his mom.
"I am a duck," said Pip, and they both laughed.
There was a girl named Sue who wanted to be tall.
She stood on a box, she stood on a chair, and she stood on the tips of her toes.
Her dad lifted her up and put her on his shoulders.
Now she could see over the wall, and on the other side there was a pony.
"I do not need to be tall," said Sue. "I need a pony."
Max and his cat were best friends, and they did everything together.
One sunny day the cat climbed up a very tall tree and could not get down.
Max called her name, but she only cried.
He wanted to help, but he was too small to climb so high.
A kind lady with a long ladder saw them and said, "I can help you."
She went up step by step and brought the cat down in her arms.
Max hugged the cat, said thank you to the lady, and promised to keep the window shut.
The next day the cat climbed up the same tree again.
Anna had a toy robot that could say only one word, and the word was "no".
"Do you want to play?" asked Anna. "No," said the robot.
"Do you want to stay in the box all day?" "No," said the robot.
Anna smiled, because now they could go outside.
The sun was hot, the lake was cool, and the three little pigs had forgotten their towels.
The first pig dried himself on the grass, and the second pig shook himself like a dog.
The third pig stayed in the water until Friday.
Little Ivan did not like to share his blocks with his sister.
He built a high tower, and she sat on the floor and looked at it with big eyes.
"It needs a roof," she said.
Ivan had no more blocks, but his sister had one, a red one, in the shape of a triangle.
She gave it to him, and it was the best roof in the world.
After that, Ivan gave her half of the blocks, and they built a whole town.
A mouse found a hat in the middle of the road.
He crawled under it and said, "What a fine house!"
Soon a beetle came along, and then a cricket, and then a very polite toad.
They all lived in the hat until a man came back, picked it up, and put it on his head.
He did not notice anything until his hat began to sing.
It was bedtime, but Zoe was not tired.
She asked for a glass of water, then for a story, and then for another glass of water.
"Just one more question," she said. "Where does the dark go in the morning?"
Her father thought about it for so long that, when he finally had an answer, she was asleep.
Once upon a time there was a dragon who could not breathe fire.
When he tried, only bubbles came out of his nose, and the other dragons laughed at him.
He was so ashamed that he flew away and hid in a cave near a village.
One evening a baby in the village would not stop crying, no matter what her parents did.
The dragon heard it, crept to the window, and sneezed very softly.
A hundred shiny bubbles floated into the room, and the baby laughed out loud.
Soon every family in the village wanted the dragon to come to their house.
He was never ashamed again, and he only cried when he got soap in his eyes.
The fox said to the crow, "You have such a beautiful voice, so why do you never sing for me?"
"Because I have heard that story before," said the crow, and she finished her cheese.
Grandpa has a boat, and the boat has a hole, and the hole has a cork.
We are never, ever allowed to touch the cork.
One Sunday my cousin Ed touched it.
We all learned to swim that day, even Grandpa.
"Can a snowman get a cold?" asked the youngest rabbit.
"Only if he gets warm first," said the oldest.
The tooth fairy could not find the house, because the snow had covered the number on the door.
She knocked at the wrong window and woke up a badger.
The badger had lost no teeth, but he had lost his glasses, and together they looked for both.
In the morning there was a coin under the pillow and a badger asleep in the bathtub.
What do you need for a good camp?
You need a tent, a torch, a warm sleeping bag, dry matches, and somebody who is not afraid of spiders.
To plant a tree, dig a hole that is twice as wide as the roots but no deeper.
Loosen the soil at the bottom, set the tree upright, and fill the hole with the same earth that you took out.
Press it down with your foot, build a small rim around the trunk to hold the water, and pour in two full buckets.
A stake is necessary only in windy places, and it should be removed after two years.
Water young trees once a week, deeply, rather than a little every day.
Prune in late winter, before the buds open.
If the leaves turn yellow in July, the tree is probably standing too wet.
To write a good letter of complaint, say what you bought, when you bought it, what is wrong with it, and what you want.
Keep it short, stay friendly, and enclose a copy of the receipt, never the original.
Threats should be saved for the second letter.
When the oil in the pan begins to shimmer, lay the fish in it with the skin down and leave it alone.
Most people turn it too early.
The skin lets go of the pan by itself when it is crisp.
Season it with salt and a few drops of vinegar, and serve it at once with boiled potatoes.
For six pancakes you need two eggs, a quarter of a litre of milk, 125 grams of flour, and a pinch of salt.
Whisk everything together and let the batter stand for twenty minutes, so that the flour can swell.
The first pancake always fails, and it belongs to the cook.
Boil the eggs for exactly six and a half minutes, then cool them in ice water; the white will be firm and the yolk still soft.
Rice should be washed, soaked, drained, and cooked with one and a half times its volume of water.
Do not lift the lid.
Unplug the machine before you open the cover.
Remove the two screws marked A, slide the plate to the right, and take out the filter.
Rinse it under the tap, let it dry completely, and put it back with the arrow pointing towards you.
If the red lamp continues to blink, consult the table on page 14.
The light above the oven does not come on unless the door is shut.
Fold the paper in half, open it, and fold all four corners to the centre.
Turn it over and do the same again.
Now put your thumbs and forefingers under the flaps, push them together, and you have made a toy that every child in the world seems to know.
Learning a language takes longer than most courses promise, but less talent than most learners fear.
Read a little every day, preferably something that you would read anyway.
Do not translate word for word; ask yourself what a native speaker would say in the same situation.
Make mistakes loudly.
Those who wait until they can speak perfectly never begin.
Parking is free for residents, provided that the permit is displayed behind the windscreen.
The permit costs 30 euros per year, or 20 for electric cars, and it must be renewed before the end of January.
Applications can be made online, by post, or in person at the town hall (Room 114, second floor, Mondays and Thursdays only).
Bring your identity card and the registration of the vehicle.
Visitors may park for up to two hours with a disc.
Lost property is kept for six months and then sold at auction.
Last year the office received 2,314 umbrellas, 871 telephones, 46 pairs of dentures, and one wedding dress.
The dress was collected after three days by a man who did not want to give his name.
Please do not feed the ducks with bread, which makes them ill; oats, peas, and lettuce are better.
Dogs must be kept on a lead between 1 April and 15 July, when birds are nesting on the ground.
Swimming is forbidden here because of the current.
All visitors must report to the gatehouse.
Mind the step!
In case of fire, leave the building by the nearest exit, do not use the lifts, and gather at the meeting point behind the car park.
The number of households in the district grew by 4 percent in ten years, while the average household shrank from 2.6 to 2.3 people.
Of the 1,200 people questioned, 37 percent said that they read at least one book a month, 41 percent read a few a year, and the rest read none.
Women read more than men, the old read more than the young, and dog owners read as much as everyone else.
The survey was paid for by an association of booksellers.
On average, a loaf of bread costs 2.80, a litre of milk 1.15, and a kilogram of apples 2.49.
Ten years ago the same basket would have cost about a third less.
If you save 50 a month at 3 percent interest, you will have almost 7,000 after ten years.
The price includes tax but not delivery.
Our profit rose from 1.9 to 2.2 million, an increase of nearly 16 percent.
The auction of the painting began at 80,000 and ended, after four minutes of silence and two nods, at 1.3 million.
Nobody knows who the bidder was, only that she wore gardening gloves.
A recession is commonly defined as two successive quarters in which the economy shrinks.
Inflation means that the same amount of money buys less than before.
Banks lend out most of the money that is deposited with them, which works well as long as not everybody wants it back on the same day.
When a good becomes scarce, its price tends to rise, and a higher price tends to bring more of it to the market.
If, however, the good is one that people cannot do without, such as bread or insulin, and if only a few firms are able to produce it, the price may go on rising for a long time before anyone else has had a chance to build a factory.
Insurance is a way of sharing a loss among many people before anyone knows whom it will strike.
The firm was founded in 1923 by two sisters who could not agree on a name, and it still has two.
Today it employs 640 people in four countries and makes roughly every fifth zip fastener sold in Europe, by its own account.
)text"
         R"text(The Ashgrove public library, one of the few buildings in the town to survive the flood, will celebrate its hundredth birthday in June.
Its first librarian, Miss Eudora Pell, lent books only to people who had washed their hands.
She inspected them at the door, front and back, and a boy who failed was sent to the pump.
The pump is still there, although it has given no water since 1954.
Today the library lends saws, telescopes, and cake tins as well.
"The cake tins come back cleaner than the novels," says its director, Tobias Wren.
He took over eight years ago, when the council was planning to close it.
Within a year he had doubled the number of readers by the simplest of means: he opened on Sundays.
He also moved the newspapers to the window, the detective stories to the front, and his own desk, which had stood for ninety years in a room that nobody was allowed to enter, to the middle of the hall, between the children's corner and the coffee machine.
Critics complain that the building has become too noisy, and they are right.
It is, however, no longer empty.
A scientist who wishes to remain anonymous has spent her holidays in the reading room for eleven summers.
"At home I have everything except a closing time," she explains.
The jury described the new concert hall as a building that knows how to listen.
It has 1,140 seats, none of which is more than thirty metres from the stage.
The walls are covered with strips of oak, each cut to a slightly different depth, so that echoes are broken up before they can return.
During the first rehearsal, a musician dropped a pencil, and everybody in the last row turned around.
The architect, who is deaf in one ear, wept.
Not everyone is pleased with the costs, which rose from 58 to 91 million while the hall was being built.
An inquiry has blamed poor planning, changing demands, and the discovery of a Roman bath exactly where the car park was supposed to be.
The bath can now be visited; the car park cannot.
The exhibition brings together sixty drawings, most of which have never been shown in public.
They were made by prisoners, sailors, and bored clerks on whatever paper came to hand.
One is drawn on the back of a tax form, and the tax has been calculated wrongly.
Another shows a horse from behind, walking away, and it is hard to say why one stands in front of it for so long.
There are no names on the labels, because there are none on the drawings.
Admission is 9 euros (5 for students), and on the first Wednesday of the month it is free.
In her second album, the singer leaves the guitar at home and turns to the organ of a village church.
The result is strange, solemn, and, in the best moments, very funny.
You can hear the pedals creak, a door close, and, at the end of the fourth song, rain.
Whoever expects another summer hit will be disappointed.
I played it three times in a row and then called my brother, to whom I had not spoken since Easter.
The board game promises "fun for the whole family in thirty minutes", and neither of these claims is true.
We needed an hour to understand the rules and another to agree that we had not.
The wooden pieces, on the other hand, are lovely, and our youngest has made a farm out of them.
As a radio play, the story works better than it ever did on the page.
The actors whisper, interrupt one another, and breathe; one forgets that they are reading.
This phone is too large for my hand, too slippery for my pocket, and too expensive for what it does.
I cannot put it down.
It took the author fourteen years to write this biography, and it takes almost as long to read.
Still, there is hardly a page on which one does not learn something, whether about the price of whale oil or about the proper way to fire a footman.
The index alone is worth the money.
After the interval, three seats in our row stayed empty, and I envied the people who had sat in them.
Gardeners will love the second season; everyone else should stop after the first.
Not bad, not good, not mine.
The cafe serves one cake a day, and when it is gone, it is gone.
We have been coming here since it opened, and we have never had a bad meal, only one slow one.
In the 78th minute the referee stopped the match because a hedgehog had walked onto the pitch.
It took its time, and both goalkeepers escorted it to the corner flag.
The final score of 0-0 did not do justice to the hedgehog.
Captain Sofia Brandao, who had missed the past six weeks with a torn muscle, returned just in time for the semi-final.
She played for only half an hour, but during that half hour her team scored four times.
"I did nothing but shout," she said, and her coach did not contradict her.
They will meet the defending champions on Sunday at 3 p.m.
The visitors led by nine points at the end of the third quarter and lost by two.
Their best shooter missed all of his free throws, which had not happened to him since he was twelve.
He stayed in the empty arena until midnight and threw five hundred more.
A former world champion, now sixty-eight, finished the lake swim in eleventh place and complained about the temperature of the tea.
The club has sold its striker for 12.5 million and does not intend to replace him.
Supporters greeted the decision with a song that cannot be printed here.
Rain delayed the start by ninety minutes; when the cars finally rolled out, half of them were on the wrong tyres.
It is not the rowers who steer but the smallest person in the boat.
The young gymnast fell from the beam, got up, and finished the exercise as though the fall had been part of it.
The horse refused the last fence twice, and on the third attempt it jumped so high that the rider lost both stirrups.
Volunteers are needed for the run on 6 October: to hand out water, to hold ropes, and to cheer for the last as loudly as for the first.
In winter the lake freezes from the edges towards the middle, and the fish move down to where the water is four degrees warm.
Water is densest at that temperature, and so the bottom of a deep lake rarely freezes.
That is a great piece of luck for the fish.
Bridges freeze before roads do, because cold air reaches them from below as well.
Most snowflakes have six sides, owing to the way in which molecules of water fit together in ice.
A desert is defined by how little it rains there, not by how hot it is; by that measure, most of Antarctica is one.
Amber is the resin of ancient trees, and sometimes an insect that was caught in it has been preserved down to the hairs on its legs.
Much of the world's coal formed from the plants of swamps that were buried some three hundred million years ago.
Dinosaurs and humans never met, films notwithstanding.
Birds, on the other hand, are the living descendants of one group of them.
The fossil that persuaded many doubters was found in a German quarry in 1861, and it had teeth, claws, and feathers.
Radio waves, visible light, and X-rays are all the same kind of wave and differ only in length.
X-rays were discovered in 1895 by Wilhelm Conrad Roentgen, who did not patent them.
Penicillin was noticed in 1928 by Alexander Fleming, when a mould killed the bacteria in a dish that he had left lying around.
It took more than ten years and the work of many others to turn the mould into a medicine.
Smallpox, which had killed hundreds of millions of people, was declared eradicated in 1980.
It is so far the only human disease of which this can be said.
Handwashing was not always customary among doctors.
In the 1840s Ignaz Semmelweis showed that deaths after childbirth fell sharply if they washed their hands in a solution of chlorinated lime.
Most of his colleagues did not believe him, and he did not live to see his idea accepted.
Only when other scientists had shown, some twenty years later, that tiny living things cause fermentation, decay, and disease, did it become clear why his method worked, and by then a new generation of doctors was ready to wash its hands without feeling insulted.
Anaesthesia changed surgery completely: an operation no longer had to be quick.
The human eye contains two kinds of cells that react to light, rods for dim light and cones for colour.
Where the optic nerve leaves the eye there are neither, and so each eye has a blind spot, which we do not notice.
Colour blindness is far more frequent in men than in women.
The tongue is not divided into separate zones for sweet, sour, salty, and bitter, as schoolbooks used to claim.
Memory is not a recording; each time that we remember something, we put it together anew.
People who are asked "How fast were the cars going when they smashed into each other?" give higher estimates than those who are asked about cars that "hit" each other.
Most of us overestimate how much others notice about us.
Habits are easier to replace than to break.
Children who are read to early know more words when they start school.
A yawn is contagious, even between humans and dogs, and reading about it may be enough.
The theory was elegant, and it was wrong.
Until the telescope was invented, nobody had any reason to suspect that Jupiter had moons.
Galileo saw four of them in January 1610 and at first took them for stars.
Night after night he drew their positions, and within a week or so he understood that they were circling the planet.
Neptune was found in 1846 by calculation, close to the place where its pull on Uranus said that it must be.
The two Voyager probes, launched in 1977, have left the region that is dominated by the wind from the Sun.
Each of them carries a golden record with greetings in fifty-five languages, music, and the sound of a kiss.
The International Space Station circles the Earth about sixteen times a day, so its crew sees the sun rise every hour and a half.
Without gravity, a candle burns with a small round flame.
Astronauts grow a few centimetres taller in space and shrink again when they come home.
A satellite in an orbit 35,786 kilometres above the equator seems to stand still in the sky.
)text"
         R"text(12 March: the ice on the bay is breaking at last.
Two seals on the rocks this morning, and a third that could not make up its mind.
Repaired the stove, wrote to Margaret, slept badly.
13 March: no boat, no post, no sugar.
14 March: still no boat, but Henrik caught a cod as long as his arm, and we forgave the world.
He says that the boat will come on Friday; he said the same last Friday.
17 March: the boat came, with sugar, newspapers, and a letter from Margaret that crossed with mine.
She wants to know whether I have become strange.
I read the question aloud to Henrik, and he advised me not to answer it at once.
Good morning, and welcome to the annual general meeting.
Before we begin, I would like to thank those of you who have travelled a long way to be here.
The past year has been neither as bad as we feared nor as good as we hoped.
Sales in Asia grew, sales in Europe did not, and our new factory opened four months late.
Some of you have asked why no dividend will be paid.
The answer is short: we would have had to borrow the money.
I see that there is a question in the third row.
"When you say 'restructuring', do you mean the people or the furniture?"
There was some laughter, though not on the stage.
Frequently asked questions: How do I reset my password?
Click the link below the login form, enter your e-mail address, and follow the instructions that we send you.
The link is valid for one hour and can be used only once.
I did not receive the message; what should I do?
Check the folder for unwanted mail first, and contact us if it is not there, either.
Can I transfer my ticket to someone else?
Yes, up to twenty-four hours before departure, for a fee of 15 euros.
Children under six travel free of charge when accompanied by an adult.
For sale: one grand piano, slightly out of tune, to be collected from the fourth floor by people with strong backs.
Wanted: a quiet room for a quiet person with a loud parrot.
Lost near the station: a brown leather glove, left hand, of no value to anyone who has two hands.
The bride wore her grandmother's lace, and the groom wore odd shoes, which nobody mentioned until the speeches.
Aunt Philippa danced with all of the waiters and with one of the musicians.
It was she who had baked the cake: five layers, forty eggs, and a bottle of rum.
By midnight the rum had made itself felt.
The two families, which had not exchanged a word since the quarrel over the well, were singing the same song in different keys.
In my opinion, the new timetable was designed by someone who has never had to catch a train.
Of course it saves money, and so would having no trains at all.
The minister tells us that we must be patient; we have been patient since 2011.
What we need is not another commission but a second track.
It is often said that young people no longer read.
They read all day long, in fact, only not what their parents would choose.
Whether this is better or worse than silence, I do not know.
To be free is not to do whatever one likes, the old teacher used to say, but to like what one does.
None of us understood him then.
If nobody had ever told a lie, would we still need the word "truth"?
She was neither rich nor beautiful nor particularly kind, and yet, whenever she left a room, it seemed to become smaller.
He is survived by his wife, two sons, a daughter, and some six thousand tomato plants.
Had I known that you were coming, I would have hidden the cake.
The more he explained, the less they understood.
Hardly had the curtain fallen when the quarrel behind it began.
It was not the money that he missed but the walk to the bank.
What surprised her most was how little she minded.
The letter was opened, read, resealed, and delivered, and no one ever noticed.
The house in which my mother grew up has been sold to the people whose dog bit her.
There are two kinds of people: those who finish their lists, and the rest of us.
Few saw it, fewer believed it, and hardly anyone wrote it down.
Rain or no rain, we leave at dawn.
Not a word was said.
Time flies.
I beg your pardon?
So much for the plan.
"Left, no, the other left!" shouted Dad from under the sofa.
Everything was ready: the flags, the trumpets, the carpet, and the wrong king.
All but one of the lamps had gone out.
The soldiers, most of them boys, marched past without looking at the bread.
A woman ran after them, put a loaf into the arms of the last one, and ran back.
He carried it for two days before he dared to cut it.
Inside, wrapped in a piece of cloth, was a photograph of somebody else's son.
He kept it for the rest of the war, and after the war he went from village to village with it.
People shook their heads, gave him milk, let him sleep in their barns, and sent him on with the names of cousins who lived further up the valley and who might, with luck, remember a face that they themselves had never seen before.
On the ninth day a woman opened the door, saw the photograph, and put another loaf on the table.
The museum's oldest clock has only one hand, as nobody needed minutes when it was made.
Mr. Osei, who winds it on Mondays, says that it is never wrong, merely vague.
His granddaughter asked him what people did when they had to meet at ten past four.
"They met at four," he said, "and they talked until the others came."
The radio announced that the tunnel was closed, so Dmitri took the coast road, and so did everyone else.
At the first bend he met a tractor, at the second a funeral, and at the third a herd of goats with no visible owner.
He switched off the engine and got out.
An hour later he knew the goats by name.
His boss, whom he called to say that he would be late, could hear the bells and refused to believe in the traffic.
Kofi learned to swim at forty, in the shallow end, among four-year-olds with orange armbands.
They were merciless.
"You have to put your face in," a girl named Pearl told him, "or it does not count."
He put his face in, and it counted.
Dr. Weiss keeps a skeleton in her office and hangs her coat on it.
Patients who find this funny recover faster, she claims, though she has never published the data.
The recipe called for a pinch of nutmeg, but the pinch was my uncle's, and he had hands like shovels.
Ruby and her twin sister Jade wore the same coat to school, Ruby in the morning and Jade in the afternoon.
The teacher, who was short-sighted, praised the girl for her perfect attendance.
It might have gone on for years if they had not both wanted to be in the play.
The lawyer for the defence rose, buttoned her jacket, and asked the witness to read the label on the bottle.
He squinted at it, turned it around, and admitted that he could not.
"And yet you recognised my client at a distance of sixty metres, at night, in the rain?"
The clerk stopped typing.
A file must be closed before it is renamed; otherwise the last lines may be lost.
The function expects a list of numbers, returns their mean, and throws an exception if the list is empty.
Tests that sometimes fail are worse than no tests, because people learn to ignore them.
Unfortunately, the two libraries depend on different versions of a third one.
Why is the second run faster than the first?
Because the data are already in memory, and nobody has told the benchmark.
Charge the battery fully before first use, and do not leave it in the sun.
The motor is rated for 230 volts and draws 4.5 amperes under full load.
Tighten the four bolts crosswise, in two steps, to a torque of 25 newton metres.
A spirit level, a pencil, and a second pair of hands will save you an hour.
The well was dug by hand in 1887 and reaches a depth of 31 metres.
Steam rose from the street, the dogs lay in the shade of the cars, and even the pigeons walked.
At dusk the first bats came out from under the bridge, then hundreds, then a single late one.
Somewhere upstairs a child was practising the same four bars on a trumpet, and they were getting better.
"Are we there yet?" asked the little snail.
"We have not left yet," said his mother.
And so the lamp was lit, the door was shut, and the story, like the soup, was kept warm for those who were still on the road.
)text";
}

}  // namespace headwise
