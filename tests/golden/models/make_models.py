"""Golden models: small random checkpoints of every architecture, and what transformers computes from them.

Run with the pinned packages of ../requirements.txt:

    python make_models.py                  rewrites every folder beside it
    python make_models.py bert t5_gated    only these

README.md describes the folders.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

import decoders
import encoders
import sentence
import seq2seq
from cases import Case
from generation import generated
from prune import Cut, Pruned, gates_without, kept_maps, pruned_heads
from record import Batch, Gates, Tensors, check_padded, mean_entropy_ratio, pack, run
from families import attentions
from weights import randomize

HERE = pathlib.Path(__file__).parent
CHECKPOINT = "model.safetensors"
INNER = (".map", ".hidden", "embeddings")
MAX_ENTROPY_RATIO = 0.85


def gates_of(model: torch.nn.Module) -> Gates:
    """Some heads at 0, some at 0.5, different ones in every attention."""
    gates = {}
    for at, attention in enumerate(attentions(model)):
        gates[attention.key] = torch.ones(attention.heads)
        gates[attention.key][at % attention.heads] = 0
        gates[attention.key][(at + 2) % attention.heads] = 0.5
    return gates


def write_expected(folder: pathlib.Path, model: torch.nn.Module, tensors: Tensors) -> None:
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, folder / "expected.safetensors", {"source": f"{type(model).__name__}, {versions}"})


def load(case: Case, folder: pathlib.Path) -> torch.nn.Module:
    model = case.model.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    return model.eval()


def save(case: Case, folder: pathlib.Path) -> torch.nn.Module:
    """Writes the checkpoint, and reads it back as a user would."""
    shutil.rmtree(folder, ignore_errors=True)
    model = case.model(case.config).eval()
    if case.untied:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    randomize(model, case.seed, case.peak, case.embedding)
    if case.generation_config:
        model.generation_config.update(**case.generation_config)
    model.to(case.dtype).save_pretrained(folder, max_shard_size=case.max_shard_size)
    loaded = load(case, folder)
    if case.sentence:
        sentence.write_modules(folder, case.sentence, loaded.config.hidden_size)
    if case.rewrite:
        case.rewrite(folder)
        rewritten = load(case, folder)
        assert_same_weights(case, loaded, rewritten)
        return rewritten
    return loaded


def assert_same_weights(case: Case, first: torch.nn.Module, second: torch.nn.Module) -> None:
    """Two forms of a folder are one model: the same parameters, the same numbers."""
    for (name, one), other in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other), f"{case.name}: {name} differs"
    batch = case.batch(first)
    one, other = pack(first, run(first, batch)), pack(second, run(second, batch))
    assert all(torch.equal(one[name], other[name]) for name in one), f"{case.name}: outputs differ"


def expected(case: Case, model: torch.nn.Module, batch: Batch) -> Tensors:
    alone = run(model, batch)
    if case.padded:
        check_padded(model, batch, alone)
    ratio = mean_entropy_ratio(alone)
    assert ratio < MAX_ENTROPY_RATIO, f"{case.name}: attention is too uniform, entropy ratio {ratio:.2f}"
    print(f"{case.name}: entropy ratio {ratio:.2f}")
    everything = batch.tensors() | pack(model, alone)
    if case.sentence:
        everything["embedding"] = sentence.embeddings(case, everything["final"], everything["lengths"])
    if case.outputs_only:
        everything = {name: t for name, t in everything.items() if not name.endswith(INNER)}
    if case.gated:
        gates = gates_of(model)
        everything |= {"gates." + key: values for key, values in gates.items()}
        everything |= {
            "gated." + name: values
            for name, values in pack(model, run(model, batch, gates)).items()
            if not name.endswith(INNER)
        }
    return everything | generated(case, model, batch)


def write_pruned(case: Case, model: torch.nn.Module, batch: Batch, folder: pathlib.Path) -> None:
    """The same model without some heads; its truth is the whole model with those heads gated to 0."""
    pruned: Pruned = pruned_heads(model)
    target = folder.with_name(folder.name + "_pruned")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    cut = Cut(model, pruned)
    tensors = cut.apply(load_file(folder / CHECKPOINT))
    save_file(tensors, target / CHECKPOINT, {"format": "pt"})
    config = json.loads((target / "config.json").read_text())
    config["pruned_heads"] = {key if "." in key else key[1:]: heads for key, heads in pruned.items()}
    (target / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")

    truth = run(model, batch, gates_without(model, pruned))
    model.load_state_dict(cut.undo(tensors), strict=False)
    for gated, zeroed in zip(truth, run(model, batch)):
        assert all(torch.allclose(gated[name], zeroed[name], atol=1e-5) for name in gated if "map" not in name)
    write_expected(target, model, batch.tensors() | pack(model, kept_maps(model, truth, pruned)))


def make(case: Case) -> None:
    folder = HERE / case.name
    model = save(case, folder)
    batch = case.batch(model)
    write_expected(folder, model, expected(case, model, batch))
    if case.pruned:
        write_pruned(case, model, batch, folder)


def main() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    chosen = sys.argv[1:]
    cases = [*encoders.cases(), *decoders.cases(), *seq2seq.cases(), *sentence.cases()]
    for case in cases:
        if not chosen or case.name in chosen:
            make(case)
    if chosen and not {case.name for case in cases}.issuperset(chosen):
        raise SystemExit(f"no such model; there are {' '.join(case.name for case in cases)}")


if __name__ == "__main__":
    main()
