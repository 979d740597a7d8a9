"""How the heads of golden models (../models) relate, by plain PyTorch in float64: maps and weights as they are.

Run with the pinned packages of ../requirements.txt:

    python make_relate.py                        rewrites the files of golden models
    python make_relate.py bert marian            only these
    python make_relate.py minilm FOLDER          that of a model with trained weights, on the texts of ../real
    python make_relate.py stories15m FOLDER

README.md describes the files.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
sys.path.insert(0, str(MODELS))

import heads  # noqa: E402
from families import Attention, attentions, family_of  # noqa: E402
from record import Batch, run  # noqa: E402

REAL = "minilm stories15m".split()
NAMES = "bert gpt2 llama marian bert_fixed llama_fixed".split()
NUMBERS = 4_000_000  # about as many are drawn for a random matrix's mean


def load(name: str) -> nn.Module:
    if name in heads.CASES:
        return heads.build(name).double().eval()
    return load_folder(MODELS / name)


def load_folder(folder: str | pathlib.Path) -> nn.Module:
    config = transformers.AutoConfig.from_pretrained(folder)
    model = getattr(transformers, config.architectures[0])
    return model.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).double().eval()


def read_batch(file: pathlib.Path) -> Batch:
    stored = load_file(file)

    def split(ids: str, lengths: str) -> list[Tensor] | None:
        return list(stored[ids].split(stored[lengths].tolist())) if ids in stored else None

    return Batch(split("ids", "lengths"), split("type_ids", "lengths"), split("decoder_ids", "decoder_lengths"))


class Weights:
    """W_Q, W_K, W_V [C, D] and W_O [D, C] of every head of one attention."""

    def __init__(self, model: nn.Module, attention: Attention, own: heads.Heads | None):
        module = model.get_submodule(attention.path)
        if family_of(model).layout == "fused":
            q, k, v = (part.T for part in module.c_attn.weight.chunk(3, 1))
            out = module.c_proj.weight
        else:
            q, k, v = (module.get_submodule(part).weight for part in family_of(model).projections)
            out = attention.out.weight.T
        count = len(own.heads) if own else attention.heads
        learned = own.learned if own else count
        kv = own.kv if own else [h * attention.kv_heads // count for h in range(count)]
        width = q.shape[0] // learned
        apart = [part.unflatten(0, (-1, width)).mT for part in (q, k, v)]
        self.q = list(apart[0])
        self.k = [apart[1][kv[h]] for h in range(learned)]
        self.v = [apart[2][kv[h]] for h in range(count)]
        self.o = list(out.unflatten(0, (count, -1)))
        self.ov = [v @ o for v, o in zip(self.v, self.o)]


def pairs(items: list, number: Callable) -> Tensor:
    return torch.tensor([[number(a, b) for b in items] for a in items], dtype=torch.float64)


def entropy(p: Tensor) -> Tensor:
    return torch.special.entr(p).sum(-1)


def js(a: Tensor, b: Tensor) -> float:
    """[rows, keys] of both; mean over rows that see a key in both."""
    seen = (a.sum(-1) > 0) & (b.sum(-1) > 0)
    return (entropy((a + b) / 2) - (entropy(a) + entropy(b)) / 2)[seen].mean().item()


def cka(a: Tensor, b: Tensor) -> float:
    a, b = a - a.mean(0), b - b.mean(0)
    return ((a.T @ b).norm() ** 2 / (a.T @ a).norm() / (b.T @ b).norm()).item()


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """Of the principal angles between column spaces."""
    return torch.linalg.svdvals(torch.linalg.qr(a).Q.T @ torch.linalg.qr(b).Q).clamp(max=1)


def effective_rank(matrix: Tensor) -> float:
    values = torch.linalg.svdvals(matrix)
    return entropy(values / values.sum()).exp().item()


def copying(ov: Tensor) -> float:
    values = torch.linalg.eigvals(ov)
    return (values.real.sum() / values.abs().sum()).item()


def composition(writer: Tensor, reader: Tensor) -> float:
    """writer [C, C] and reader [C, D] multiply rows from the right."""
    return ((writer @ reader).norm() / writer.norm() / reader.norm()).item()


def reads(writer: str, reader: str, side: str) -> bool:
    """Whether an attention writes to what another one reads on that side: "dec.L0" to "cross.L0" by its queries."""
    (of_writer, at), (of_reader, to) = (name.split("L") for name in (writer, reader))
    if of_reader == "cross." and side != "q":
        return of_writer == "enc."
    if of_writer == of_reader:
        return int(at) < int(to)
    if (of_writer, of_reader) == ("dec.", "cross."):
        return int(at) <= int(to)
    return (of_writer, of_reader) == ("cross.", "dec.") and int(at) < int(to)


def random_composition(width: int, head: int) -> Tensor:
    """The mean for matrices of normal numbers, and its standard error."""
    draws = NUMBERS // (width * head)

    def draw() -> float:
        value, out, reader = (torch.randn(*shape, dtype=torch.float64)
                              for shape in ((width, head), (head, width), (width, head)))
        return composition(value @ out, reader)

    drawn = torch.tensor([draw() for _ in range(draws)], dtype=torch.float64)
    return torch.stack([drawn.mean(), drawn.std() / draws**0.5])


@torch.no_grad()
def relate(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    found = attentions(model)
    own = getattr(model, "own_heads", [None] * len(found))
    mixes: dict[str, list[Tensor]] = {attention.key: [] for attention in found}
    for attention in found:
        attention.out.register_forward_pre_hook(lambda _, x, key=attention.key: mixes[key].append(x[0].flatten(0, -2)))
    passes = run(model, batch)

    tensors: dict[str, Tensor] = {}
    weights = {a.key: Weights(model, a, of) for a, of in zip(found, own)}
    maps: dict[str, list[Tensor]] = {}  # of every head: [rows, keys], zeros where a text is shorter
    for attention in found:
        key, w = attention.key, weights[attention.key]
        parts = [one[key + ".map"][0] for one in passes]
        keys = max(part.shape[-1] for part in parts)
        maps[key] = list(torch.cat([nn.functional.pad(part, (0, keys - part.shape[-1])) for part in parts], 1))
        tensors[f"js.{key}"] = pairs(maps[key], js)
        z = torch.cat(mixes[key])
        outputs = [part @ o for part, o in zip(z.unflatten(-1, (len(w.o), -1)).unbind(1), w.o)]
        tensors[f"output_cka.{key}"] = pairs(outputs, cka)
        for side, spaces in {"q": w.q, "k": w.k, "v": w.v, "o": [o.T for o in w.o]}.items():
            tensors[f"subspace_overlap.{side}.{key}"] = pairs(spaces, lambda a, b: (cosines(a, b) ** 2).mean().item())
            tensors[f"principal_angle.{side}.{key}"] = pairs(spaces, lambda a, b: cosines(a, b).max().acos().item())
        tensors[f"qk_rank.{key}"] = torch.tensor([effective_rank(q @ k.T) for q, k in zip(w.q, w.k)])
        tensors[f"ov_rank.{key}"] = torch.tensor([effective_rank(ov) for ov in w.ov])
        tensors[f"copying.{key}"] = torch.tensor([copying(ov) for ov in w.ov])
    for prefix in dict.fromkeys(key.split("L")[0] for key in maps):
        of_type = [one for key, some in maps.items() if key.startswith(prefix + "L") for one in some]
        tensors[f"js.{prefix.removesuffix('.') or 'all'}"] = pairs(of_type, js)
    for side in "qkv":
        columns = [(key, h, getattr(w, side)) for key, w in weights.items() for h in range(len(w.o))]
        table = torch.full((len(columns), len(columns)), torch.nan, dtype=torch.float64)
        for a, (writer, h, _) in enumerate(columns):
            for b, (reader, at, some) in enumerate(columns):
                if reads(writer, reader, side) and at < len(some):
                    table[a, b] = composition(weights[writer].ov[h], some[at])
        tensors[f"composition.{side}"] = table
    width, head = weights[found[0].key].v[0].shape
    tensors["composition.random"] = random_composition(width, head)
    return tensors


def write(name: str, model: nn.Module, batch: Batch) -> None:
    torch.manual_seed(len(name))
    tensors = {key: value.float().contiguous() for key, value in relate(model, batch).items()}
    versions = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"
    save_file(tensors, HERE / f"{name}.safetensors", {"source": versions})


def main() -> None:
    torch.set_num_threads(1)
    names = sys.argv[1:] or NAMES
    if names[0] in REAL:
        write(names[0], load_folder(names[1]), read_batch(HERE.parent / "real" / f"{names[0]}.safetensors"))
        return
    for name in names:
        write(name, load(name), read_batch(MODELS / name / "expected.safetensors"))


if __name__ == "__main__":
    main()
