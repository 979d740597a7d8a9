"""Writes bleu.json: corpora of a few lines and what sacreBLEU says about them.

Run with the pinned packages of ../requirements.txt:  python make_bleu.py
The case "golden lines" has its texts from ../text/lines.txt: a reference is a line, its hypothesis has an o for each a.
"""
import json
import pathlib
import random
import sys

import sacrebleu

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "text"))

from text_lines import read_lines  # noqa: E402

REFERENCES = [
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "Mehrere Männer mit Schutzhelmen bedienen ein Antriebsradsystem.",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
    "Zwei Männer stehen am Herd und bereiten Essen zu.",
    "Eine Frau, die einen Hut trägt, wartet um 17:30 Uhr an der Haltestelle.",
]
HYPOTHESES = [
    "Zwei junge Männer sind im Freien in der Nähe von vielen Büschen.",
    "Mehrere Männer mit Helmen bedienen ein System.",
    "Ein kleines Mädchen klettert in ein Haus aus Holz.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
    "Zwei Männer stehen am Herd und kochen.",
    "Eine Frau mit Hut wartet um 17:30 Uhr an der Haltestelle.",
]

CASES = {
    "German captions": (HYPOTHESES, REFERENCES),
    "equal": (REFERENCES, REFERENCES),
    "case counts": ([text.lower() for text in REFERENCES], REFERENCES),
    "English": (["A man is riding a bike down the street.", "The dogs run through the grass ."],
                ["A man rides a bike down a street.", "Dogs are running through the tall grass."]),
    "one word of many": (["Zwei"], ["Zwei junge weiße Männer sind im Freien."]),
    "shorter than the references": ([" ".join(text.split()[:5]) for text in REFERENCES], REFERENCES),
    "longer than the references": ([text + " " + text for text in REFERENCES], REFERENCES),
    "repeated words are clipped": (["the the the the the the the"], ["the cat is on the mat"]),
    "no 4-gram": (["the cat sat there on a mat today"], ["a cat was sitting there on the mat"]),
    "no 3-gram": (["a dog b cat c mouse d bird"], ["x dog b y cat c z mouse"]),
    "only unigrams": (["one three five seven nine"], ["nine seven five three one"]),
    "nothing": (["completely other words are here"], ["that sentence has none of those"]),
    "no text has four tokens": (["a b c", "d e"], ["a b c", "d e"]),
    "a text has four tokens": (["a b c", "d e f g"], ["a b c", "d e f g"]),
    "an empty hypothesis": (["", HYPOTHESES[1], HYPOTHESES[3]], [REFERENCES[0], REFERENCES[1], REFERENCES[3]]),
    "an empty reference": ([HYPOTHESES[0], HYPOTHESES[1], HYPOTHESES[3]], ["", REFERENCES[1], REFERENCES[3]]),
    "only empty hypotheses": (["", " "], ["a b c d", "e f g h"]),
    "only empty references": (["a b c d", "e f g h"], ["", " "]),
    "only empty texts": ([""], [""]),
    "numbers": (["It cost $3,000.50, or 1.5% of 200,000 - in 1990-91.", "On 12.03.1999 at 10:45, 3-4 men", "a.b,c 1.b a.1 .5 5. ,5 5,"],
                ["It cost 3,000.50 $, or 1.50 % of 200.000 -- in 1990-1991.", "On 12.03.1999, at 10:45 3 - 4 men", "a . b , c 1 . b a . 1 .5 5 . ,5 5 ,"]),
    "punctuation": (["\"Hello,\" (she) said: it's... [done]/{not}?! @home #1 *x* a_b ^c^ `d` ~e~ <f> = |g| \\h +i",
                     "..., .,. ,., -,- 1-2 3--4 a-b -5 6- e.g., U.S.A. 'quoted' don't"],
                    ["\" Hello , \" ( she ) said : it's ... [ done ] / { not } ? ! @ home # 1 * x * a _ b ^ c ^ ` d ` ~ e ~ < f > = | g | \\ h + i",
                     "... , . , . , . , - , - 1 -2 3 --4 a-b -5 6 - e.g. , U.S.A. ' quoted ' don't"]),
    "entities": (["Tom &amp; Jerry said &quot;hi&quot; &lt;b&gt; &amp;lt; &amp;amp; &nbsp; & co <skipped>done"],
                 ["Tom & Jerry said \"hi\" <b> < & &nbsp; & co done"]),
    "Unicode": (["Füße · straße “quoted” – dash… 你好,世界。 3\u00a0€ naïve\u2009café\u3000fin\u2028line \u0085x\x1cy 😀!", "Ünïcödé e\u0301té, №5"],
                ["Füße · Straße “quoted” – dash… 你好 , 世界。 3 € naïve café fin line x y 😀 !", "Ünïcödé e\u0301té , №5"]),
    "line breaks": (["a long-\nword and\na new line\n", "x\r\ny z \t\n"], ["a longword and a new line", "x y z"]),
    "spaces": (["  a   b\t c  d ", "e f g h"], ["a b c d", "e f\u00a0g h  "]),
}


def drawn_corpus():
    rng = random.Random(5)
    words = [f"{a}{b}" for a in "bdgkmt" for b in ["a", "en", "ist", "or", "ür"]] + [",", ".", "-", "3.5"]
    references = [" ".join(rng.choice(words) for _ in range(rng.randrange(1, 30))) for _ in range(120)]
    hypotheses = []
    for reference in references:
        kept = [word if rng.random() < 0.75 else rng.choice(words) for word in reference.split() if rng.random() < 0.95]
        hypotheses.append(" ".join(kept))
    return hypotheses, references


def result(hypotheses, references):
    bleu = sacrebleu.corpus_bleu(hypotheses, [references])
    return {"score": bleu.score, "precisions": bleu.precisions, "matches": bleu.counts, "totals": bleu.totals,
            "brevity_penalty": bleu.bp, "hypothesis_length": bleu.sys_len, "reference_length": bleu.ref_len}


def main():
    cases = [{"name": name, "hypotheses": hypotheses, "references": references, **result(hypotheses, references)}
             for name, (hypotheses, references) in {**CASES, "drawn": drawn_corpus()}.items()]
    lines = [text for _, text in read_lines(HERE.parent / "text" / "lines.txt")]
    cases.append({"name": "golden lines", **result([line.replace("a", "o") for line in lines], lines)})
    with open(HERE / "bleu.json", "w", encoding="utf-8", newline="\n") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
