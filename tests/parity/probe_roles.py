"""How many roles that heads have on probe sentences hold on a treebank and on GAP.

    headwise observe MODEL --treebank en_ewt-ud-dev.conllu.gz --coref gap-development.tsv \
        --measure linguistic -o evidence.json
    python3 tests/parity/probe_roles.py --headwise build/release/bin/headwise evidence.json ...

Each evidence file is judged without its answers from data, so that roles come from probes only. A
role holds if, on the data, the head is better than the baseline by 0.10 or more: for a relation, in
one of the relations and directions that the role names; for coreference, than the nearest name and
than one half. Recall is the share of the heads with the role on data that have it on probes. On
data a head has the role relation if one of the relations and directions that the probes measure
is better than its baseline by 0.10 or more, over 30 items or more.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile

MARGIN = 0.10
FEWEST = 30  # items of a relation on data


def wilson(hits, n, z=1.959963984540054):
    if n == 0:
        return 0.0, 1.0
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return middle - reach, middle + reach


def pairs(record):
    """{"det to_head": {"accuracy": ..}} of a record of evidence."""
    return {
        f"{relation} {direction}": measure
        for relation, directions in record.get("relation", {}).items()
        for direction, measure in directions.items()
    }


def gain(measure, floor=0.0):
    return measure["accuracy"] - max(floor, measure["baseline"])


def judged_on_probes(headwise, evidence):
    """The details of roles that heads have on probes: {"L0.H1": {"relation": ["det to_head"]}}."""
    bare = json.loads(json.dumps(evidence))
    for head in bare["heads"]:
        for name in ("relation", "coreference"):
            head.pop(name, None)
    bare.pop("best", None)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "evidence.json")
        with open(path, "w", encoding="utf8") as file:
            json.dump(bare, file)
        verdict = json.loads(subprocess.check_output([headwise, "judge", path, "--json"]))
    roles = {}
    for head in verdict["heads"]:
        for role in head["roles"]:
            if role["source"] == "probes":
                own = roles.setdefault(head["head"], {})
                own.setdefault(role["role"], []).append(role.get("detail", ""))
    return roles


def count(evidence, roles):
    """{"relation": (given, hold, on data, found)}; roles without data are left out."""
    counts = {}
    for name in ("relation", "coreference"):
        given = hold = on_data = found = 0
        measured = False
        for head in evidence["heads"]:
            named = roles.get(head["head"], {}).get(name)
            if name == "relation":
                data, probes = pairs(head), pairs(head.get("probes", {}))
                good = {d for d, m in data.items() if gain(m) >= MARGIN}
                measured |= bool(data)
                has = any(d in probes and data[d]["n"] >= FEWEST for d in good)
                holds = named is not None and bool(good.intersection(named))
            else:
                measured |= "coreference" in head
                has = "coreference" in head and gain(head["coreference"], 0.5) >= MARGIN
                holds = named is not None and has
            given += named is not None
            hold += holds
            on_data += has
            found += has and named is not None
        if measured:
            counts[name] = (given, hold, on_data, found)
    return counts


def shown(hits, n):
    low, high = wilson(hits, n)
    share = f"{100 * hits / n:4.0f} %" if n else "     -"
    return f"{hits:4} of {n:<4}{share} ({100 * low:.0f} to {100 * high:.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headwise", default="build/release/bin/headwise")
    parser.add_argument("evidence", nargs="+")
    arguments = parser.parse_args()
    print(f"{'model':<24}{'heads':>6}  {'role':<13}{'hold, of those on probes':<32}found, of those on data")
    total = {}
    for path in arguments.evidence:
        with open(path, encoding="utf8") as file:
            evidence = json.load(file)
        counts = count(evidence, judged_on_probes(arguments.headwise, evidence))
        for name, (given, hold, on_data, found) in counts.items():
            print(f"{evidence['model']['name']:<24}{len(evidence['heads']):>6}  {name:<13}"
                  f"{shown(hold, given):<32}{shown(found, on_data)}")
            total[name] = [a + b for a, b in zip(total.get(name, (0,) * 4), counts[name])]
    if len(arguments.evidence) > 1:
        for name, (given, hold, on_data, found) in total.items():
            print(f"{'together':<30}  {name:<13}{shown(hold, given):<32}{shown(found, on_data)}")


if __name__ == "__main__":
    main()
