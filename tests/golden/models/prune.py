"""Cuts heads out of a checkpoint: rows of the projections to queries, keys and values, columns of the output's."""

from __future__ import annotations

import torch
from torch import nn

from families import Attention, attentions, family_of
from record import Gates, Tensors

Pruned = dict[str, list[int]]


def pruned_heads(model: nn.Module) -> Pruned:
    """Different heads in each layer; all of layer 1; of groups first a part, then one as a whole."""
    chosen: Pruned = {}
    for at, attention in enumerate(attentions(model)):
        heads, group = attention.heads, attention.heads // attention.kv_heads
        layer = int(attention.key.rpartition("L")[2])
        if layer == 1 and not attention.key.startswith("dec."):
            chosen[attention.key] = list(range(heads))
        elif group > 1:
            chosen[attention.key] = [1] if layer == 0 else list(range(heads - group, heads))
        else:
            chosen[attention.key] = [h for h in ([1, 3], [0], [2])[at % 3] if h < heads]
    return chosen


def gates_without(model: nn.Module, pruned: Pruned) -> Gates:
    gates = {attention.key: torch.ones(attention.heads) for attention in attentions(model)}
    for key, heads in pruned.items():
        gates[key][heads] = 0
    return gates


def kept_heads(attention: Attention, pruned: Pruned) -> list[int]:
    return [h for h in range(attention.heads) if h not in pruned.get(attention.key, [])]


def kept_kv_heads(attention: Attention, pruned: Pruned) -> list[int]:
    group = attention.heads // attention.kv_heads
    return sorted({h // group for h in kept_heads(attention, pruned)})


def kept_elements(heads: list[int], head_width: int) -> torch.Tensor:
    return torch.tensor([h * head_width + d for h in heads for d in range(head_width)], dtype=torch.int64)


class Cut:
    """The kept indices of every tensor that is cut: name -> (dimension, indices)."""

    def __init__(self, model: nn.Module, pruned: Pruned):
        self.kept: dict[str, tuple[int, torch.Tensor]] = {}
        self.state = model.state_dict()
        self.family = family_of(model)
        for attention in attentions(model):
            self.add(attention, pruned)

    def keep(self, module: str, heads: list[int], head_width: int, dimension: int = 0, bias: bool = True) -> None:
        indices = kept_elements(heads, head_width)
        self.kept[module + ".weight"] = dimension, indices
        if bias and module + ".bias" in self.state:
            self.kept[module + ".bias"] = 0, indices

    def add(self, attention: Attention, pruned: Pruned) -> None:
        heads = kept_heads(attention, pruned)
        out = f"{attention.path}.{self.family.out}"
        fused = self.family.layout == "fused"  # Conv1D: [in, out]
        out_dimension = 0 if fused else 1
        width = self.state[out + ".weight"].shape[out_dimension] // attention.heads
        self.keep(out, heads, width, out_dimension, bias=False)
        projections = [f"{attention.path}.{name}" for name in self.family.projections]
        if fused:
            parts = [part * attention.heads + h for part in range(3) for h in heads]
            self.keep(projections[0], parts, width, 1)
        elif self.family.layout == "interleaved":
            self.keep(projections[0], heads, 3 * width)
        else:
            self.keep(projections[0], heads, width)
            for projection in projections[1:]:
                self.keep(projection, kept_kv_heads(attention, pruned), width)

    def apply(self, stored: Tensors) -> Tensors:
        """The tensors of the pruned checkpoint."""
        return {
            name: tensor.index_select(*self.kept[name]).contiguous() if name in self.kept else tensor
            for name, tensor in stored.items()
        }

    def undo(self, cut: Tensors) -> Tensors:
        """Full tensors again, zeros where heads were: a model with them computes what the gated one does."""
        full = {}
        for name, tensor in cut.items():
            full[name] = tensor
            if name in self.kept:
                full[name] = torch.zeros_like(self.state[name]).index_copy(*self.kept[name], tensor)
        return full


def kept_maps(model: nn.Module, alone: list[Tensors], pruned: Pruned) -> list[Tensors]:
    """Without the maps of heads that are gone."""
    kept = {attention.key + ".map": kept_heads(attention, pruned) for attention in attentions(model)}
    return [{name: t[:, kept[name]] if name in kept else t for name, t in single.items()} for single in alone]
