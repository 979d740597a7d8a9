"""Writes expected/: what the tokenizers package makes of lines.txt with each tokenizer of tokenizers/.

Run after make_tokenizers.py, with the pinned packages of ../requirements.txt:  python make_expected.py [NAME…]
A file has, after what it is about:
  hashes N   then for every line of lines.txt (or one in `stride`) the CRC-32 of its encodings and of its decodings;
             "-" where there is more than one right answer
  sweep N    then for every block of 4,096 code points the CRC-32 of the encodings of texts with all of them
  cases N    then readable encodings of some lines, pairs and truncations, one to a row; the fields are those of `Case`
"""
import argparse
import dataclasses
import itertools
import pathlib
import struct
import zlib

import tokenizers
import transformers

from peers import PEERS, SAME
from text_lines import escape, read_lines

HERE = pathlib.Path(__file__).parent
SWEEP = [*range(0, 0x34), 0xE0, 0x10F]  # blocks of 4,096: those with assigned code points, and the very last
LINES = [text for _, text in read_lines(HERE / "lines.txt")]


@dataclasses.dataclass
class Case:
    line: int
    second: int | None = None
    special: bool = True
    truncate: int | None = None
    pad: int | None = None

    def row(self, peer):
        """Tab-separated: the case, id:begin-end:word of every token, types, special mask, sequences, decodings.

        What is absent is "-"; of a decoding that gives the text itself, "=".
        """
        text, pair = LINES[self.line], None if self.second is None else LINES[self.second]
        e = peer.encode(text, pair, self.special, self.truncate, self.pad)
        dash = lambda x: "-" if x is None else str(x)
        tokens = " ".join(f"{id}:{b}-{end}:{dash(word)}" for id, (b, end), word in zip(e.ids, e.offsets, e.words))
        decoded = [peer.decode(e.ids, skip) for skip in (True, False)]
        return "\t".join([
            str(self.line), dash(self.second), str(int(self.special)), dash(self.truncate), dash(self.pad),
            tokens or "-", *("".join(map(dash, row)) or "-" for row in (e.types, e.mask, e.sequences)),
            *("=" if one == text else escape(one) or "-" for one in decoded)])


def numbers(e):
    """What is hashed of an encoding: little-endian int32."""
    rows = zip(e.ids, e.types, (-1 if w is None else w for w in e.words), e.mask, *zip(*e.offsets)) if e.ids else ()
    flat = [len(e.ids), *itertools.chain.from_iterable(rows)]
    return struct.pack(f"<{len(flat)}i", *flat)


def line_hashes(peer, text):
    if peer.ambiguous(text):
        return "- -"
    with_special, without = peer.encode(text), peer.encode(text, special=False)
    decoded = "\0".join(peer.decode(with_special.ids, skip) for skip in (True, False))
    return f"{zlib.crc32(numbers(with_special) + numbers(without)):08x} {zlib.crc32(decoded.encode()):08x}"


def sweep_texts(block):
    """Every code point of the block between letters, after a space, doubled and before a digit; 16 to a text."""
    for begin in range(block << 12, (block + 1) << 12, 16):
        yield "".join(f"a{chr(c)}a {chr(c)}{chr(c)}1 " for c in range(begin, begin + 16) if not 0xD800 <= c < 0xE000)


def sweep_hash(peer, block):
    crc = 0
    for text in sweep_texts(block):
        crc = zlib.crc32(numbers(peer.encode(text, special=False)), crc)
    return f"{crc:08x}"


def readable_lines():
    """Short lines of every category, more of those that differ most between tokenizers."""
    chosen = {}
    for number, (category, text) in enumerate(read_lines(HERE / "lines.txt")):
        wanted = {"space": 12, "special": 6, "control": 4, "combining": 4, "emoji": 4, "broken": 4, "code": 2, "latin": 2}
        if len(text) <= {"code": 70, "combining": 70, "long": 130}.get(category, 40):
            chosen.setdefault(category, [])
            if len(chosen[category]) < wanted.get(category, 1):
                chosen[category].append(number)
    return [number for numbers in chosen.values() for number in numbers]


def cases(peer):
    lines = [line for line in readable_lines() if not peer.ambiguous(LINES[line])][:: 2 * peer.stride - 1]
    yield from (Case(line) for line in lines)
    yield from (Case(line, special=False) for line in lines[::7])
    if not peer.pairs or peer.stride > 1:
        return
    pairs = list(zip(lines[::7], lines[4::7]))
    yield from (Case(a, b) for a, b in pairs)
    yield from (Case(a, b, special=False) for a, b in pairs[:3])
    for a, b in pairs[::3]:
        yield Case(a, truncate=5)
        yield Case(a, b, truncate=9)
        yield Case(b, a, truncate=6, special=False)
        if peer.pad is not None:
            yield Case(a, pad=20)
            yield Case(a, b, truncate=12, pad=14)


def sections(peer):
    return {
        "hashes": [line_hashes(peer, text) for text in LINES[:: peer.stride]],
        "sweep": [f"{block:03x} {sweep_hash(peer, block)}" for block in SWEEP] if peer.swept else [],
        "cases": [case.row(peer) for case in cases(peer)],
    }


def write(name):
    peer = PEERS[name]()
    expected = sections(peer)
    folders = [name.removesuffix("-target")] + [folder for folder, (same, _) in SAME.items() if same == name]
    for folder in folders[1:]:
        assert sections(SAME[folder][1]()) == expected, f"{folder} differs from {name}"
    rows = [f"about tokenizers {tokenizers.__version__}", f"about transformers {transformers.__version__}",
            f"folders {' '.join(folders)}", f"compared {peer.compared}", f"stride {peer.stride}", f"size {peer.size}"]
    for title, section in expected.items():
        rows += [f"{title} {len(section)}", *section]
    path = HERE / "expected" / f"{name}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8", newline="\n")
    print(f"{name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="tokenizers; all of them without")
    for one in parser.parse_args().names or PEERS:
        write(one)
