#!/usr/bin/env python3
"""Kills commands that write at random moments, and looks at what is left.

usage: kills.py PROGRAM MODEL [--kills 200] [--seed 0]

MODEL is a small causal model with a tokenizer. Each command is run to its end once. Then it is killed (SIGKILL) again and
again, after a random share of that time. After each kill a result is either not there or whole: its files have the bytes of
the run that was not killed. Then the command is run to its end, with --resume where it has one, and must give these bytes, and
leave nothing of the killed one behind. Files that hold times are not compared.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

TIMED = {"summary.json", "report.html", "samples.json", "README.md", "log.jsonl", "prune.json"}


def contents(path):
    """{"model/config.json": bytes} of a folder or a file, without those that hold times."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*"))
            if file.is_file() and file.name not in TIMED}


def leftovers(folder):
    return [str(path) for path in folder.rglob("*")
            if path.name.endswith(".part") or "headwise-part" in path.name]


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


class Command:
    def __init__(self, name, program, arguments, folder, out, resumes=False, unfinished=lambda out: False,
                 option="-o"):
        self.name, self.folder, self.out, self.resumes, self.unfinished = name, folder, folder / out, resumes, unfinished
        self.arguments = [program, *map(str, arguments), option, str(self.out), "--quiet"]

    def start(self, more=()):
        return subprocess.Popen([*self.arguments, *more], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run(self, more=()):
        process = self.start(more)
        errors = process.communicate()[1]
        if process.returncode != 0:
            raise AssertionError(f"{self.name}: exit code {process.returncode}: {errors}")

    def measure(self):
        begin = time.monotonic()
        self.run()
        self.seconds, self.whole = time.monotonic() - begin, contents(self.out)
        remove(self.out)

    def kill(self, draw):
        """What the kill found: nothing, unfinished or whole."""
        process = self.start()
        time.sleep(draw.uniform(0, 1.1 * self.seconds))
        process.kill()
        process.communicate()
        if not self.out.exists():
            found = "nothing"
        elif self.unfinished(self.out):
            found = "unfinished"
        else:
            found = "whole"
            self.compare("after a kill")
        if found == "whole":
            remove(self.out)
        self.run(["--resume"] if self.resumes and found != "whole" else [])
        self.compare("when run again")
        remove(self.out)
        if left := leftovers(self.folder):
            raise AssertionError(f"{self.name}: left behind: {left}")
        return found

    def compare(self, when):
        there = contents(self.out)
        different = [name for name in self.whole.keys() | there.keys() if self.whole.get(name) != there.get(name)]
        if different:
            raise AssertionError(f"{self.name} {when}: not the bytes of a run that was not killed: {different}")


def commands(program, model, folder):
    text = folder / "text.txt"
    text.write_text("".join(f"The {a} {b} {c}.\n" for a in ("old", "small", "red") for b in ("dog", "cat", "house", "bird")
                            for c in ("sleeps", "runs", "is here", "was seen")))
    settings = folder / "settings.json"
    settings.write_text(json.dumps({
        "task": "causal_lm", "seed": 1,
        "model": {"architecture": "llama", "hidden_size": 32, "layers": 2, "heads": 4, "max_position_embeddings": 32, "vocab_size": 300},
        "data": {"train": [str(text)], "length": 32, "documents": "lines"},
        "tokens_per_batch": 200, "steps": 60, "optimizer": {"rate": 3e-3}}))
    heads = ["--drop", "L0.H1,L1.H2"]
    subprocess.run([program, "observe", model, "--input", text, "-o", folder / "evidence.json", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([program, "judge", folder / "evidence.json", "-o", folder / "verdict.json", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    return [
        Command("train", program, ["train", settings], folder, "trained", True,
                lambda out: not (out / "model.safetensors").exists()),
        Command("study", program, ["study", model, "--input", text, "--keep", "0.8"], folder, "study", True,
                lambda out: not (out / "summary.json").exists()),
        Command("observe", program, ["observe", model, "--input", text], folder, "observed.json", True),
        Command("judge", program, ["judge", folder / "evidence.json"], folder, "judged.json"),
        Command("plan", program, ["plan", folder / "verdict.json", "--keep", "0.6"], folder, "plan.json"),
        Command("prune", program, ["prune", model, *heads], folder, "pruned"),
        Command("recover", program, ["prune", model, *heads, "--recover", text, "--epochs", "1"], folder, "recovered"),
        Command("export", program, ["export", model], folder, "model.onnx", option="--onnx"),
        Command("probes", program, ["probes", "--count", "50"], folder, "probes", False, lambda out: True),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("model", type=os.path.abspath)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    found = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as folder:
        all_commands = commands(options.program, options.model, pathlib.Path(folder))
        for command in all_commands:
            command.measure()
        for i in range(options.kills):
            command = all_commands[i % len(all_commands)]
            found[command.name][command.kill(draw)] += 1
    for name, counts in found.items():
        print(f"{name:<10}" + ", ".join(f"{what} {n}" for what, n in sorted(counts.items())))
    print(f"{options.kills} kills: every result whole or not there, and the same bytes when run again")


main()
