"""The program as scripts call it, and the forms of a model that it prunes."""

from __future__ import annotations

import json
import pathlib
import subprocess


def headwise(program: str, *arguments: str) -> dict | None:
    done = subprocess.run([program, *arguments, "--json", "--quiet"], capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    if done.returncode != 0:
        raise RuntimeError(document["error"]["what"])
    return document


def layers_of(program: str, folder: pathlib.Path) -> list[dict]:
    return headwise(program, "inspect", str(folder))["layers"]


def uneven(layers: list[dict], empty: bool = False) -> list[str]:
    """Another head in each attention; and all of one."""
    heads = []
    for i, layer in enumerate(layers):
        names = layer["head_names"]
        all_go = empty and i == min(1, len(layers) - 1)
        for name in names if all_go or not names else [names[i % len(names)]]:
            heads.append(f"{layer['name']}.H{name}")
    return heads


def even(layers: list[dict], same: bool) -> list[str]:
    """As many heads in each layer, one of each group."""
    heads = []
    for i, layer in enumerate(layers):
        group = layer["heads"] // layer["kv_heads"]
        if group == 1:
            heads.append(f"{layer['name']}.H{0 if same else i % layer['heads']}")
        for kv in range(layer["kv_heads"] if group > 1 else 0):
            heads.append(f"{layer['name']}.H{kv * group + (i + kv) % group}")
    return heads


def prune(program: str, source: pathlib.Path, drop: list[str], form: str, out: pathlib.Path) -> None:
    heads = ",".join(drop)
    headwise(program, "prune", str(source), "--drop", heads, "--form", form, "-o", str(out), "--tokens", "4")


def all_forms(program: str, source: pathlib.Path, room: pathlib.Path) -> dict[str, pathlib.Path]:
    layers = layers_of(program, source)
    shares_biases = json.loads((source / "config.json").read_text())["model_type"] == "t5"
    plans = {
        "compact": uneven(layers),
        "compact, a layer without heads": uneven(layers, empty=True),
        "masked": uneven(layers, empty=True),
        "uniform": even(layers, same=shares_biases),
    }
    made = {}
    for number, (form, drop) in enumerate(plans.items()):
        try:
            prune(program, source, drop, form.split(",")[0], room / str(number))
        except RuntimeError:  # no such form of this architecture
            assert form == "uniform", form
            continue
        made[form] = room / str(number)
    made["compact, twice"] = room / "again"
    left = uneven(layers_of(program, made["compact"]))
    prune(program, made["compact"], left, "compact", made["compact, twice"])
    return made
