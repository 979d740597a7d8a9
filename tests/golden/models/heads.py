"""Golden models with head settings that transformers does not have: fixed patterns and mixtures of heads.

Each is one of the golden models beside it, with an attention written out here: plain PyTorch on [H, N, N] scores. Fixed heads
lose their queries, and key/value heads that only they read lose their keys; heads lie in the order learned, then fixed.

    python heads.py                  rewrites every folder of CASES
    python heads.py bert_fixed       only these
"""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.models.llama.modeling_llama import rotate_half

from families import attentions, base_model, family_of, layer_lists
from make_models import gates_of, write_expected
from record import Batch, pack, run

HERE = pathlib.Path(__file__).parent


@dataclass(frozen=True)
class Case:
    base: str
    fixed: dict[str, str] = field(default_factory=dict)
    routing: dict[str, float] | None = None


CASES = {
    "bert_fixed": Case(
        "bert", {"L0.H0": "previous", "L0.H1": "next", "L0.H2": "first", "L1.H3": "window(3)", "L2.H1": "window(4)"}
    ),
    "llama_fixed": Case("llama", {"L0.H1": "previous", "L1.H0": "window(3)", "L1.H1": "first", "L2.H2": "window(1)"}),
    "llama_routed": Case("llama", {}, {"shared": 1, "active": 2, "balance": 0.05}),
    "gpt2_mixed": Case("gpt2", {"L0.H1": "previous", "L2.H3": "first"}, {"shared": 0, "active": 1, "balance": 0.1}),
    "marian_mixed": Case(
        "marian",
        {"enc.L0.H0": "next", "dec.L1.H1": "previous", "cross.L0.H1": "first"},
        {"shared": 0, "active": 1, "balance": 0.01},
    ),
}


def visible(pattern: str, rows: int, keys: int, causal: bool) -> torch.Tensor:
    i, j = torch.arange(rows)[:, None], torch.arange(keys)[None, :]
    if pattern == "learned":
        seen = torch.ones(rows, keys, dtype=torch.bool)
    elif pattern == "first":
        seen = (j == 0).expand(rows, keys)
    elif pattern in ("previous", "next"):
        seen = j == i + (1 if pattern == "next" else -1)
    else:
        size = int(pattern.removeprefix("window(").removesuffix(")"))
        left = size - 1 if causal else size // 2
        seen = (j >= i - left) & (j <= i - left + size - 1)
    return seen & (j <= i) if causal else seen


class Heads:
    """One attention: which heads it has, in which order, and what they compute."""

    def __init__(self, case: Case, key: str, heads: int, kv_heads: int, causal: bool):
        patterns = {int(name.rsplit("H")[1]): p for name, p in case.fixed.items() if name.rsplit(".", 1)[0] == key}
        learned = [h for h in range(heads) if h not in patterns]
        self.heads = learned + sorted(patterns)
        self.patterns = ["learned"] * len(learned) + [patterns[h] for h in sorted(patterns)]
        self.learned = len(learned)
        kv = [h * kv_heads // heads for h in self.heads]
        self.keys = list(dict.fromkeys(kv[: self.learned]))
        self.values = list(dict.fromkeys(kv))
        self.kv = [self.values.index(k) for k in kv]
        self.causal = causal
        self.routing = case.routing
        self.routed = list(range(int(case.routing["shared"]), self.learned)) if case.routing else []
        self.likelihoods: list[torch.Tensor] = []

    def mix(self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, router: nn.Module | None):
        """q [N, Hl, D], k [M, Kk, D], v [M, K, Dv] to z [N, H Dv] and maps [H, N, M]."""
        maps = []
        for h, pattern in enumerate(self.patterns):
            seen = visible(pattern, len(x), len(v), self.causal)
            scores = torch.zeros(len(x), len(v), dtype=x.dtype)
            if h < self.learned:
                scores = q[:, h] @ k[:, self.kv[h]].T / q.shape[-1] ** 0.5
            weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
            maps.append(torch.where(seen.any(-1, keepdim=True), weights, 0.0))
        z = torch.stack([m @ v[:, self.kv[h]] for h, m in enumerate(maps)], 1)
        if router is not None:
            z = z * self.gates(router(x))[:, :, None]
        return z.flatten(1), torch.stack(maps)

    def gates(self, logits: torch.Tensor) -> torch.Tensor:
        p = logits.softmax(-1)
        self.likelihoods.append(p)
        kept = torch.zeros_like(p).scatter(1, p.topk(int(self.routing["active"])).indices, 1.0)
        gates = torch.ones(len(p), len(self.heads), dtype=p.dtype)
        gates[:, self.routed] = kept * len(self.routed) * p
        return gates

    def balance(self) -> torch.Tensor:
        p = torch.cat(self.likelihoods)
        active = int(self.routing["active"])
        chosen = torch.zeros_like(p).scatter(1, p.topk(active).indices, 1.0).sum(0) / (active * len(p))
        return self.routing["balance"] * p.shape[1] * (chosen * p.mean(0)).sum()


def balance(model: nn.Module) -> torch.Tensor | float:
    """The loss that spreads rows over heads, of all calls since the last time."""
    total = 0.0
    for own in getattr(model, "own_heads", []):
        if own.likelihoods:
            total = total + own.balance()
            own.likelihoods.clear()
    return total


def select(weights: torch.Tensor, heads: list[int], of: int) -> torch.Tensor:
    """Rows of some of `of` heads."""
    return weights.unflatten(0, (of, -1))[heads].flatten(0, 1)


def shrink(linear: nn.Module, heads: list[int], of: int) -> None:
    linear.weight = nn.Parameter(select(linear.weight.data, heads, of))
    if linear.bias is not None:
        linear.bias = nn.Parameter(select(linear.bias.data, heads, of))


def apart(rows: torch.Tensor, width: int) -> torch.Tensor:
    return rows.unflatten(-1, (-1, width))


def bert_forward(own: Heads, module: nn.Module, router: nn.Module | None) -> Callable:
    def forward(self, hidden_states, *_, **__):
        x = hidden_states[0]
        width = module.attention_head_size
        q, k, v = (apart(f(x), width) for f in (module.query, module.key, module.value))
        z, maps = own.mix(x, q, k, v, router)
        return z[None], maps[None]

    return forward


def marian_forward(own: Heads, module: nn.Module, router: nn.Module | None) -> Callable:
    def forward(self, hidden_states, key_value_states=None, **__):
        x = hidden_states[0]
        source = x if key_value_states is None else key_value_states[0]
        q, k, v = (
            apart(f(rows), module.head_dim)
            for f, rows in ((module.q_proj, x), (module.k_proj, source), (module.v_proj, source))
        )
        z, maps = own.mix(x, q, k, v, router)
        return module.out_proj(z)[None], maps[None]

    return forward


def llama_forward(own: Heads, module: nn.Module, router: nn.Module | None) -> Callable:
    def forward(self, hidden_states, position_embeddings=None, **__):
        x = hidden_states[0]
        cos, sin = (part[0][:, None] for part in position_embeddings)
        q, k, v = (apart(f(x), module.head_dim) for f in (module.q_proj, module.k_proj, module.v_proj))
        q, k = (part * cos + rotate_half(part) * sin for part in (q, k))
        z, maps = own.mix(x, q, k, v, router)
        return module.o_proj(z)[None], maps[None]

    return forward


def gpt2_forward(own: Heads, module: nn.Module, router: nn.Module | None) -> Callable:
    def forward(self, hidden_states, *_, **__):
        x = hidden_states[0]
        width = module.head_dim
        sizes = [own.learned * width, len(own.keys) * width, len(own.values) * width]
        q, k, v = (apart(part, width) for part in (x @ module.c_attn.weight + module.c_attn.bias).split(sizes, -1))
        z, maps = own.mix(x, q, k, v, router)
        return module.c_proj(z)[None], maps[None]

    return forward


FORWARDS = {"bert": bert_forward, "marian": marian_forward, "llama": llama_forward, "gpt2": gpt2_forward}


def build(name: str) -> nn.Module:
    """The base model with the head settings of a case, in float32."""
    case = CASES[name]
    config = transformers.AutoConfig.from_pretrained(HERE / case.base)
    model = getattr(transformers, config.architectures[0]).from_pretrained(
        HERE / case.base, attn_implementation="eager", dtype=torch.float32
    )
    kind = model.config.model_type
    family = family_of(model)
    model.own_heads = []
    torch.manual_seed(len(name))
    for attention in attentions(model):
        module = model.get_submodule(attention.path)
        causal = kind != "bert" and not attention.key.startswith(("enc.", "cross."))
        own = Heads(case, attention.key, attention.heads, attention.kv_heads, causal)
        model.own_heads.append(own)
        with torch.no_grad():
            if kind == "gpt2":
                parts = module.c_attn.weight.T.chunk(3), module.c_attn.bias.chunk(3)
                chosen = own.heads[: own.learned], own.keys, own.values
                rows = [torch.cat([select(p, c, attention.heads) for p, c in zip(part, chosen)]) for part in parts]
                module.c_attn.weight = nn.Parameter(rows[0].T.contiguous())
                module.c_attn.bias = nn.Parameter(rows[1])
                attention.out.weight = nn.Parameter(select(attention.out.weight, own.heads, attention.heads))
            else:
                query, key, value = (module.get_submodule(part) for part in family.projections)
                shrink(query, own.heads[: own.learned], attention.heads)
                shrink(key, own.keys, attention.kv_heads)
                shrink(value, own.values, attention.kv_heads)
                columns = select(attention.out.weight.T, own.heads, attention.heads)
                attention.out.weight = nn.Parameter(columns.T.contiguous())
        router = None
        if own.routed:
            layer = model.get_submodule(layer_path(model, attention.key))
            if not hasattr(layer, "headwise"):
                layer.headwise = nn.Module()
            router = nn.Linear(model.config.hidden_size, len(own.routed), bias=False)
            nn.init.normal_(router.weight, std=0.5)
            setattr(layer.headwise, "cross_router" if attention.key.startswith("cross.") else "router", router)
        patched = module.self if kind == "bert" else module
        patched.forward = types.MethodType(FORWARDS[kind](own, patched, router), patched)
    return model.eval()


def layer_path(model: nn.Module, key: str) -> str:
    prefix, name = key.rsplit("L", 1)
    for stack, _ in layer_lists(model):
        if prefix in stack.attentions:
            return f"{base_model(model)[0]}{stack.layers}.{name}"
    raise KeyError(key)


def batch_of(name: str) -> Batch:
    stored = load_file(HERE / CASES[name].base / "expected.safetensors")

    def split(ids: str, lengths: str) -> list[torch.Tensor] | None:
        return list(stored[ids].split(stored[lengths].tolist())) if ids in stored else None

    return Batch(split("ids", "lengths"), split("type_ids", "lengths"), split("decoder_ids", "decoder_lengths"))


def write(name: str) -> None:
    case = CASES[name]
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    model = build(name)
    base = load_file(HERE / case.base / "model.safetensors")
    own = dict(model.named_parameters(remove_duplicate=False))
    tensors = {n: own[n].detach() if n in own else t for n, t in base.items()}
    tensors |= {n: p.detach() for n, p in own.items() if ".headwise." in n}
    save_file({n: t.clone().contiguous() for n, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((HERE / case.base / "config.json").read_text())
    config["model_type"] = "headwise_" + config["model_type"]
    config["headwise"] = {"fixed": case.fixed} | ({"routing": case.routing} if case.routing else {})
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    batch = batch_of(name)
    gates = gates_of(model)
    everything = batch.tensors() | pack(model, run(model, batch))
    everything |= {"gates." + key: values for key, values in gates.items()}
    everything |= {
        "gated." + n: values for n, values in pack(model, run(model, batch, gates)).items() if n.endswith("final") or n == "logits"
    }
    write_expected(folder, model, everything)
    print(name)


def main() -> None:
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    for name in CASES:
        if not sys.argv[1:] or name in sys.argv[1:]:
            write(name)


if __name__ == "__main__":
    main()
