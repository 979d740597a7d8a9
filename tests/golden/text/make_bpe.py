"""Writes trained_bpe.json: the byte-level BPE that the tokenizers package trains on lines.txt, and what it makes of some.

Run after make_lines.py, with the pinned packages of ../requirements.txt:  python make_bpe.py
"""
import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from text_lines import read_lines

HERE = pathlib.Path(__file__).parent
LINES = [text for _, text in read_lines(HERE / "lines.txt")]
STRIDE = 8  # ids are kept of every so many lines

CASES = [  # special tokens, template, vocabulary, min_frequency
    ("marian", ["<pad>", "</s>"], "$A </s>", 1500, 2),
    ("bert", ["[PAD]", "[CLS]", "[SEP]", "[MASK]"], "[CLS] $A [SEP]", 700, 5),
    ("gpt2", ["<|endoftext|>"], None, 100000, 40),  # ends with the pairs, not with the vocabulary
]


def train(special, template, vocabulary, min_frequency):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, min_frequency=min_frequency, special_tokens=special,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    if template:
        ids = [(token, tokenizer.token_to_id(token)) for token in special if token in template]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=ids)
    return tokenizer


def main():
    cases = []
    for architecture, special, template, vocabulary, min_frequency in CASES:
        tokenizer = train(special, template, vocabulary, min_frequency)
        model = json.loads(tokenizer.to_str())["model"]
        cases.append({"architecture": architecture, "vocabulary": vocabulary, "min_frequency": min_frequency,
                      "size": tokenizer.get_vocab_size(), "merges": [" ".join(merge) for merge in model["merges"]],
                      "stride": STRIDE, "ids": [tokenizer.encode(line).ids for line in LINES[::STRIDE]]})
    with open(HERE / "trained_bpe.json", "w", encoding="utf-8", newline="\n") as file:
        rows = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases]
        file.write("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
