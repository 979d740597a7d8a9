"""Tokenizers as the tokenizers package does it, on one thread; and the training of tokenizers to measure."""
import itertools
import json
import os
import pathlib
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers  # noqa: E402
import torch  # noqa: E402
from tokenizers import decoders, models, pre_tokenizers, trainers  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden" / "text" / "tokenizers"


def untrained(kind):
    """A tokenizer of the family and its trainer."""
    if kind == "byte-level-bpe":
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer, trainers.BpeTrainer(
            vocab_size=16000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    if kind == "unigram":
        tokenizer = tokenizers.Tokenizer(models.Unigram())
        tokenizer.normalizer = tokenizers.Tokenizer.from_file(str(GOLDEN / "t5" / "tokenizer.json")).normalizer
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        return tokenizer, trainers.UnigramTrainer(
            vocab_size=16000, unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    raise ValueError(f"unknown kind {kind!r}")


def train(case):
    """Trains a tokenizer of some thousand tokens into the folder, unless it is there."""
    path = pathlib.Path(case["folder"]) / "tokenizer.json"
    if not path.exists():
        tokenizer, trainer = untrained(case["train"])
        tokenizer.train_from_iterator(json.loads(pathlib.Path(case["texts"]).read_text("utf-8")), trainer)
        path.parent.mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(path))
    return lambda: None, lambda: []


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def encode(case):
    """Text by text or as a batch: whichever is faster here."""
    tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(case["folder"]) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    texts = json.loads(pathlib.Path(case["texts"]).read_text("utf-8"))
    ways = [lambda: tokenizer.encode_batch(texts), lambda: [tokenizer.encode(text) for text in texts]]
    run = min(ways, key=seconds)

    def numbers():
        flat = itertools.chain.from_iterable
        encodings = run()
        yield torch.tensor(list(flat(e.ids for e in encodings)))
        yield torch.tensor(list(flat(flat(e.offsets) for e in encodings)))

    return run, numbers


def prepare(case):
    return train(case) if "train" in case else encode(case)
