"""How many heads of a translation model can go: BLEU over heads removed, by several orders, with intervals.

    python translation_heads.py HEADWISE MODEL DATA -o FOLDER [--recover 36,50,58] [--positional 0.7]

HEADWISE is the program, MODEL a trained translation model (multi30k.json), DATA the folder of Multi30k. Needs sacrebleu and numpy.
Everything that was computed stays in FOLDER, and is not computed again; table.json there has the figures.

Orders are made from the validation set and scored on the test set. An interval is of the paired difference to the whole model:
2.5 to 97.5 % of 1,000 samples of test lines.
"""
import argparse
import gzip
import json
import pathlib
import subprocess
import time

import numpy
from sacrebleu.metrics import BLEU

SEEDS = [0, 1, 2]


def lines_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def files(option, paths):
    return [word for path in paths for word in (option, path)]


class Trial:
    def __init__(self, options):
        self.options = options
        self.folder = pathlib.Path(options.out)
        self.folder.mkdir(parents=True, exist_ok=True)
        for part in ("val", "test_2016_flickr"):
            for language in ("en", "de"):
                path = self.folder / f"{part}.{language}"
                if not path.exists():
                    path.write_text("\n".join(lines_of(f"{options.data}/{part}.{language}.gz")) + "\n", encoding="utf-8")
        self.source = self.folder / "test_2016_flickr.en"
        self.references = (self.folder / "test_2016_flickr.de").read_text(encoding="utf-8").splitlines()
        self.validation = [str(self.folder / "val.en"), str(self.folder / "val.de")]
        self.rows = []

    def headwise(self, *arguments):
        command = [self.options.headwise, *map(str, arguments), "--quiet", "--threads", str(self.options.threads)]
        begin = time.time()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"{time.time() - begin:6.0f} s  headwise {' '.join(command[1:])[:150]}", flush=True)

    def evidence(self):
        path = self.folder / "evidence.json"
        if not path.exists():
            self.headwise("observe", self.options.model, "--input", self.validation[0], "--reference", self.validation[1], "--no-probes",
                          "--sample", 300, "--loss", "translate", *files("--data", self.validation), "-o", path)
        verdict = self.folder / "verdict.json"
        if not verdict.exists():
            extra = ["--threshold", f"positional={self.options.positional}"] if self.options.positional else []
            self.headwise("judge", path, *extra, "-o", verdict)
        return verdict

    def order(self, name, seed=0):
        """All heads but one of each layer, in the order in which they go."""
        path = self.folder / f"plan-{name}-{seed}.json"
        if not path.exists():
            measured = ["--model", self.options.model, *files("--data", self.validation), "--sample", 200, "--step", 3] if name == "greedy" else []
            self.headwise("plan", self.evidence(), "--order", name, "--heads", 9, "--seed", seed, *measured, "-o", path)
        return json.loads(path.read_text())["drop"]

    def translate(self, name, model, dropped=()):
        path = self.folder / f"{name}.json"
        if not path.exists():
            gates = [word for head in dropped for word in ("--gate", f"{head}=0")]
            self.headwise("run", model, "--task", "translate", "--input", self.source, "--beams", 5, "--max-tokens", 128, *gates,
                          "--json", "-o", path)
        return [result["output"] for result in json.loads(path.read_text())["results"]]

    def statistics(self, outputs):
        return numpy.array(BLEU()._extract_corpus_statistics(outputs, [self.references]))

    def score(self, label, order, removed, outputs, **more):
        """Adds a row: BLEU and the interval of what was lost."""
        if not self.rows:
            self.whole = self.statistics(outputs)
            self.samples = numpy.random.default_rng(0).integers(0, len(outputs), (1000, len(outputs)))
        statistics = self.statistics(outputs)
        value = bleu(statistics.sum(0))
        differences = [bleu(statistics[s].sum(0)) - bleu(self.whole[s].sum(0)) for s in self.samples]
        low, high = numpy.percentile(differences, [2.5, 97.5])
        row = {"label": label, "order": order, "removed": removed, "bleu": value, "difference": value - bleu(self.whole.sum(0)),
               "low": low, "high": high, **more}
        self.rows.append(row)
        print(f"{label:40} {value:6.2f}  {row['difference']:+6.2f} ({low:+.2f} to {high:+.2f})", flush=True)
        (self.folder / "table.json").write_text(json.dumps(self.rows, indent=1))


def bleu(statistics):
    """Of the summed statistics of sacreBLEU: lengths of output and reference, then matches and totals of 1- to 4-grams."""
    output, reference = statistics[0], statistics[1]
    right, total = statistics[2:6].astype(float), statistics[6:10].astype(float)
    if output == 0 or (right == 0).any():
        return 0.0
    return 100 * min(1.0, numpy.exp(1 - reference / output)) * numpy.exp(numpy.log(right / total).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headwise")
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("-o", "--out", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--orders", default="gradient,ablation,redundant-first,greedy", help="beside random")
    parser.add_argument("--counts", default="7,14,22,29,36,43,50,58")
    parser.add_argument("--recover", default="36,50,58", help="numbers of heads removed after which the model is trained again")
    parser.add_argument("--encoder", default="12,19", help="numbers of heads of the encoder removed")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", default="2e-4")
    parser.add_argument("--dropout", default="0")
    parser.add_argument("--label-smoothing", default="0")
    parser.add_argument("--positional", type=float, default=0)
    parser.add_argument("--parts", default="curves,positional,recover,gates,encoder")
    options = parser.parse_args()
    trial = Trial(options)
    trial.score("whole model", "none", 0, trial.translate("whole", options.model))
    counts = [int(n) for n in options.counts.split(",")]
    if "curves" in options.parts:
        for name, seed in orders(options):
            dropped = trial.order(name, seed)
            for n in counts:
                trial.score(f"{name} {seed} -{n}", name, n, trial.translate(f"{name}-{seed}-{n}", options.model, dropped[:n]), seed=seed)
    if "positional" in options.parts:
        positional(trial)
    if "recover" in options.parts:
        # What training again does to the model with all heads.
        nothing = trial.folder / "plan-nothing.json"
        nothing.write_text('{"drop": []}')
        recovered(trial, "recovered-none-0", "none", 0, [nothing])
        for n in [int(n) for n in options.recover.split(",")]:
            for name, seed in orders(options):
                recovered(trial, f"recovered-{name}-{seed}-{n}", name, n, ["--drop", ",".join(trial.order(name, seed)[:n])], seed=seed)
    if "gates" in options.parts:
        for n in [int(n) for n in options.recover.split(",")]:
            gates = ["--gates", "--heads", 72 - n]
            recovered(trial, f"gates-{n}", "gates", n, gates)
            recovered(trial, f"gates-alone-{n}", "gates", n, [*gates, "--gate-weights", "frozen", "--gate-epochs", 1], epochs=0)
    if "encoder" in options.parts:
        # As Voita et al. 2019: heads of the encoder alone.
        for n in [int(n) for n in options.encoder.split(",")]:
            dropped = [head for head in trial.order("ablation") if head.startswith("enc.")][:n]
            trial.score(f"encoder -{n}", "encoder", n, trial.translate(f"encoder-{n}", options.model, dropped))
            recovered(trial, f"recovered-encoder-{n}", "encoder", n, ["--drop", ",".join(dropped)])


def orders(options):
    return [(name, 0) for name in options.orders.split(",")] + [("random", seed) for seed in SEEDS]


def recovered(trial, name, order, n, arguments, epochs=None, **more):
    options = trial.options
    epochs = options.epochs if epochs is None else epochs
    model = trial.folder / name
    train = [f"{options.data}/train.{language}.gz" for language in ("en", "de")]
    if not (model / "config.json").exists():
        trial.headwise("prune", options.model, *arguments, "--loss", "translate", *files("--recover", train), "--epochs", epochs,
                       "--learning-rate", options.learning_rate, "--dropout", options.dropout, "--label-smoothing", options.label_smoothing, *files("--data", trial.validation), "-o", model)
    trial.score(f"{name}", order, n, trial.translate(f"{name}.outputs", model), recovered=epochs > 0, **more)


def positional(trial):
    """All positional heads gone, half of them, and as many at random."""
    verdict = json.loads(trial.evidence().read_text())
    roles = {"previous", "next", "self", "offset"}
    of_role = [head["head"] for head in verdict["heads"] if any(role["role"] in roles for role in head["roles"])]
    everyone = [head["head"] for head in verdict["heads"]]
    print("positional:", ", ".join(of_role))
    if not of_role:
        return
    model = trial.options.model
    trial.score("all positional heads", "positional", len(of_role), trial.translate("positional-all", model, of_role), heads=of_role)
    for seed in SEEDS:
        draw = numpy.random.default_rng(seed)
        half = sorted(draw.permutation(of_role)[: len(of_role) // 2])
        trial.score(f"half of them, draw {seed}", "positional-half", len(half), trial.translate(f"positional-half-{seed}", model, half), heads=half)
        kinds = [head.split(".")[0] for head in of_role]  # as many of the same kind of attention
        others = []
        for kind in sorted(set(kinds)):
            pool = [head for head in everyone if head.split(".")[0] == kind and head not in of_role]
            others += sorted(draw.permutation(pool)[: kinds.count(kind)])
        trial.score(f"as many others, draw {seed}", "others", len(others), trial.translate(f"others-{seed}", model, others), heads=others)


main()
