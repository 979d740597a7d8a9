"""The table of src/observe/real_offsets.cc: where the words of a relation stand in real text.

    python3 tests/parity/real_offsets.py en_ewt-ud-train.conllu.gz

For each relation and direction: the share, in ten thousandths, that the best fixed offset finds,
then the shares of the offsets -9 and below, -8 … -1, 1 … 8, 9 and above, from the word that is
asked to its answer. Of several dependents the nearest counts, of two as near the later one.
Offsets count all words; punctuation asks nothing and is no answer.
"""

import collections
import gzip
import sys

RELATIONS = ("acl:relcl advcl advmod amod aux case cc conj det iobj mark nmod nmod:poss nsubj "
             "nummod obj obl").split()
FARTHEST = 9


def sentences(path):
    opened = gzip.open if path.endswith(".gz") else open
    words = []
    with opened(path, "rt", encoding="utf8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if fields[0].isdigit():
                words.append((fields[3], fields[7], int(fields[6]) - 1))
            elif not fields[0] and words:
                yield words
                words = []
    if words:
        yield words


def main():
    found = {}  # {(relation, direction): [right of each offset, offsets of the nearest answer, items]}
    for words in sentences(sys.argv[1]):
        asked = collections.defaultdict(list)
        for i, (upos, relation, head) in enumerate(words):
            if upos == "PUNCT" or head < 0 or words[head][0] == "PUNCT":
                continue
            asked[relation, "to_head", i].append(head - i)
            asked[relation, "to_dependent", head].append(i - head)
        for (relation, direction, _), offsets in asked.items():
            right, nearest, n = found.setdefault(
                (relation, direction), [collections.Counter(), collections.Counter(), [0]])
            right.update(offsets)
            closest = min(offsets, key=lambda offset: (abs(offset), -offset))
            nearest[max(-FARTHEST, min(FARTHEST, closest))] += 1
            n[0] += 1
    for direction in ("to_head", "to_dependent"):
        for relation in RELATIONS:
            right, nearest, (n,) = found[relation, direction]
            shares = [f"{10000 * nearest[offset] / n:.0f}"
                      for offset in range(-FARTHEST, FARTHEST + 1) if offset]
            print(f'    {{"{relation}/{direction}",\n     {10000 * max(right.values()) / n:.0f},\n'
                  f'     {{{", ".join(shares)}}}}},')


if __name__ == "__main__":
    main()
