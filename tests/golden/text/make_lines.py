"""Writes lines.txt, the texts that tokenizers are compared on: sentences.txt, names and dates of the CLDR in many
languages, and generated oddities.

Run with the pinned packages of ../requirements.txt:  python make_lines.py
"""
import datetime
import pathlib
import random
import unicodedata

import babel
from babel.dates import format_datetime
from babel.numbers import format_currency, format_decimal

from text_lines import read_lines, write_lines

HERE = pathlib.Path(__file__).parent
LOCALES = {  # category: locales of the CLDR
    "latin": "en_GB",
    "latin-diacritics": "cs pl hu fr de es pt tr vi is lv lt da ro sv fi az yo ha cy mt",
    "cyrillic": "ru uk bg sr kk ky mn tg uz_Cyrl",
    "greek": "el",
    "arabic": "ar_EG fa ur ckb ug sd",
    "hebrew": "he yi",
    "devanagari": "hi mr ne",
    "bengali": "bn as",
    "tamil": "ta",
    "thai": "th",
    "georgian": "ka",
    "armenian": "hy",
    "han-simplified": "zh_Hans",
    "han-traditional": "zh_Hant",
    "japanese": "ja",
    "hangul": "ko",
    "khmer": "km",
    "ethiopic": "am ti",
    "myanmar": "my",
    "telugu": "te",
    "kannada": "kn",
    "malayalam": "ml",
    "gujarati": "gu",
    "gurmukhi": "pa",
    "odia": "or",
    "sinhala": "si",
    "lao": "lo",
    "tibetan": "bo",
    "cherokee": "chr",
    "tifinagh": "zgh",
    "nko": "nqo",
    "ol-chiki": "sat",
    "adlam": "ff_Adlm",
    "vai": "vai",
}
SUBJECTS = "the river|a small boy|my sister|the old captain|nobody|every reader|the second head|an empty house".split("|")
VERBS = "sees|has never heard|attends to|is running towards|would have opened|isn't|forgets|counts".split("|")
OBJECTS = "the letter|seven birds|what was said|the last token|his brother's boat|a mountain|all of them|it".split("|")
ENDS = ". ! ? ... ; , and so on.".split(" ", 5)
MARKS = "[MASK] [SEP] <mask> <s> </s> <pad> <|endoftext|> <|eot_id|> <|im_end|> <extra_id_3>".split()


def localized(rng, name):
    """Lists of names, a date and amounts as one language writes them."""
    locale = babel.Locale.parse(name)
    names = [sorted(set(table.values())) for table in (locale.territories, locale.languages, locale.currencies) if table]
    for _ in range(12):
        yield ", ".join(rng.sample(rng.choice(names), 3))
    months, days = locale.months["format"]["wide"], locale.days["format"]["wide"]
    yield " ".join(str(months[m]) for m in range(1, 13))
    yield "/".join(str(days[d]) for d in range(7))
    for _ in range(4):
        when = datetime.datetime(rng.randrange(1800, 2100), rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24), 7)
        yield format_datetime(when, "full", locale=locale, tzinfo=None)
        yield f"{format_currency(rng.uniform(0, 1e7), 'EUR', locale=locale)} ({format_decimal(rng.random(), locale=locale)})"


def sentence(rng):
    text = f"{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}"
    shape = rng.randrange(5)
    return (text.upper() if shape == 0 else text.title() if shape == 1 else text[0].upper() + text[1:]) + rng.choice(ENDS)


def marked(rng, texts):
    """Added tokens of some tokenizer in other text, with and without spaces around."""
    parts = []
    for _ in range(rng.randrange(2, 5)):
        parts += [rng.choice(texts)[: rng.randrange(1, 12)], rng.choice(["", " ", "  ", "\n", "\t "]), rng.choice(MARKS),
                  rng.choice(["", " ", "   ", "."])]
    return "".join(parts)


def code_points(rng, count):
    """Any code points that UTF-8 can hold, from the planes in proportion to what is in them."""
    ranges = [(0, 0x250), (0x250, 0x3000), (0x3000, 0xD800), (0xE000, 0x10000), (0x10000, 0x20000), (0x20000, 0x110000)]
    return "".join(chr(rng.randrange(*rng.choice(ranges[: rng.randrange(1, 7)]))) for _ in range(count))


def cut_and_joined(rng, texts):
    """Pieces of texts in different scripts, joined anyhow: cuts fall inside words, clusters and sequences."""
    pieces = []
    for _ in range(rng.randrange(2, 7)):
        text = rng.choice(texts)
        begin = rng.randrange(len(text))
        pieces.append(text[begin : begin + rng.randrange(1, 14)])
    return rng.choice(["", " ", "-", "'", "\n"]).join(pieces)


def long_words():
    yield "long", "a" * 3000
    yield "long", "ab" * 60
    yield "long", "antidisestablishmentarianism" * 90
    yield "long", "x" * 99 + " " + "x" * 100 + " " + "x" * 101 + " " + "é" * 100 + " " + "é" * 101
    yield "long", "ГАЗПРОМ" * 300
    yield "long", "東京都" * 400
    yield "long", "ก" * 700
    yield "long", "1234567890" * 150
    yield "long", " " * 1500
    yield "long", "\n" * 500
    yield "long", "!?" * 500
    yield "long", "e" + "\u0301" * 800
    yield "long", "👨‍👩‍👧" * 150
    yield "long", "'s" * 400
    yield "long", "a1" * 500
    yield "long", "a " * 700
    yield "long", " \n" * 300 + "x"
    yield "long", "\u0000" * 300
    yield "long", "각" * 200 + unicodedata.normalize("NFD", "각") * 150


def lines():
    rng = random.Random(20)
    written = read_lines(HERE / "sentences.txt")
    yield from written
    texts = [text for _, text in written]
    for category, names in LOCALES.items():
        for name in names.split():
            for text in localized(rng, name):
                texts.append(text)
                yield category, text
    yield from (("latin", sentence(rng)) for _ in range(120))
    scripts = [text for category, text in written if category not in ("special", "space", "control", "broken")]
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        for text in rng.sample(scripts, 25):
            yield "normal-form", unicodedata.normalize(form, text)
    yield from (("case", change(text)) for text in rng.sample(scripts, 20) for change in (str.upper, str.title))
    yield from (("mixed", cut_and_joined(rng, texts)) for _ in range(160))
    yield from (("special", marked(rng, texts)) for _ in range(100))
    yield from (("broken", code_points(rng, rng.randrange(1, 12))) for _ in range(160))
    yield from long_words()
    yield "empty", ""


def main():
    kept = list(dict.fromkeys(lines()))
    about = [
        "Texts to compare tokenizers on: category, tab, text. Made by make_lines.py; text_lines.py says how it is escaped.",
        f"Names, dates and amounts are from the CLDR through Babel {babel.__version__} (Unicode License v3).",
    ]
    write_lines(HERE / "lines.txt", about, kept)
    assert read_lines(HERE / "lines.txt") == kept
    print(f"{len(kept)} lines in {len({category for category, _ in kept})} categories")


if __name__ == "__main__":
    main()
