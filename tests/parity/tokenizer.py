"""Compares headwise's tokenizer with the tokenizers package on megabytes of text.

    python tests/parity/tokenizer.py TOKENIZER [TEXT…] [--megabytes N] [--sweep] [--encoder PROGRAM]

TOKENIZER is a folder or its tokenizer.json. A TEXT is a file, each of whose lines is a text, or a folder of such files;
.gz is unpacked. Without one the golden lines are taken. If they are fewer than N megabytes, lines are joined anyhow until
there are; with --sweep, texts with every code point come first. Ids, offsets, words, types, special masks and decodings
must be equal. The first differences are shown, cut down to the shortest text that has one.

Needs the packages of tests/golden/requirements.txt, and the program:  cmake --build build/release --target encode_lines
"""
import argparse
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden" / "text"))

import tokenizers  # noqa: E402

import peers  # noqa: E402
from text_lines import escape, read_lines  # noqa: E402

SHOWN = 10


class Headwise:
    """encode_lines, asked one text at a time."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def encode(self, text):
        self.process.stdin.write(json.dumps(text) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"encode_lines ended at {escape(text[:200])!r}")
        return json.loads(answer)


class Peer:
    def __init__(self, folder):
        if (folder / "tokenizer.json").exists():
            self.peer = peers.FastPeer(tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")))
        elif (folder / "source.spm").exists():
            self.peer = peers.MarianPeer(folder)
        else:
            import transformers

            self.peer = peers.FastPeer(transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer)

    def encode(self, text):
        e = self.peer.encode(text)
        encoded = {"ids": e.ids, "offsets": [list(span) for span in e.offsets], "types": e.types, "mask": e.mask,
                   "decoded": self.peer.decode(e.ids, True), "decoded_all": self.peer.decode(e.ids, False)}
        if self.peer.compared == "all":
            encoded["words"] = [-1 if word is None else word for word in e.words]
        return encoded


def differing(ours, theirs):
    return [field for field in theirs if ours[field] != theirs[field]]


def shortest(headwise, peer, text):
    """A text that cannot lose another stretch without losing the difference."""
    size = len(text) // 2
    while size:
        at = 0
        while at < len(text):
            shorter = text[:at] + text[at + size :]
            if differing(headwise.encode(shorter), peer.encode(shorter)):
                text = shorter
            else:
                at += size
        size //= 2
    return text


def show(headwise, peer, number, text):
    text = shortest(headwise, peer, text)
    ours, theirs = headwise.encode(text), peer.encode(text)
    print(f'text {number}, cut to "{escape(text)}":')
    for field in differing(ours, theirs):
        print(f"  {field}\n    headwise {ours[field]!r}\n    expected {theirs[field]!r}")


def lines_of(path):
    files = [one for one in sorted(path.rglob("*")) if one.is_file()] if path.is_dir() else [path]
    for file in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rb") as stream:
            yield from stream.read().decode("utf-8", "replace").split("\n")


def sweep():
    for begin in range(0, 0x110000, 16):
        yield "".join(f"a{chr(c)}a {chr(c)}{chr(c)}1 " for c in range(begin, begin + 16) if not 0xD800 <= c < 0xE000)


def texts(options):
    """Texts of about so many megabytes."""
    if options.sweep:
        yield from sweep()
    lines = [line for path in options.texts for line in lines_of(path)]
    if not lines:
        lines = [text for _, text in read_lines(ROOT / "tests" / "golden" / "text" / "lines.txt")]
    left = options.megabytes * 1e6
    for line in lines:
        left -= len(line.encode())
        if left < 0:
            return
        yield line
    rng = random.Random(1)
    while left > 0:
        text = rng.choice(["", " ", "\n", "  ", ". "]).join(rng.choice(lines) for _ in range(rng.randrange(2, 6)))
        text = text[rng.randrange(8) :]
        left -= len(text.encode())
        yield text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs="*")
    parser.add_argument("--megabytes", type=float, default=5)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--encoder", default=ROOT / "build" / "release" / "bin" / "encode_lines")
    options = parser.parse_args()
    folder = options.tokenizer if options.tokenizer.is_dir() else options.tokenizer.parent
    headwise, peer = Headwise(options.encoder, folder), Peer(folder)
    equal = differ = 0
    for number, text in enumerate(texts(options)):
        if not differing(headwise.encode(text), peer.encode(text)):
            equal += 1
            continue
        if peer.peer.ambiguous(text):
            continue
        differ += 1
        if differ <= SHOWN:
            show(headwise, peer, number, text)
    print(f"{equal} lines equal, {differ} differ")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
