"""Where a family of models keeps its attention: the modules of every layer, and how heads lie in their weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Stack:
    """A list of layers, and the attentions in each layer by prefix ("", "enc.", "dec.", "cross.")."""

    layers: str
    attentions: dict[str, str]
    prefix: str = ""


@dataclass(frozen=True)
class Family:
    stacks: tuple[Stack, ...]
    out: str
    projections: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    layout: str = "apart"  # or "fused": columns q|k|v of a Conv1D, or "interleaved": rows [H, 3, D]


def encoder(layers: str, attention: str, out: str, q: str, k: str, v: str) -> Family:
    return Family((Stack(layers, {"": attention}),), out, (q, k, v))


BERT = encoder("encoder.layer", "attention", "output.dense", "self.query", "self.key", "self.value")
LLAMA = encoder("layers", "self_attn", "o_proj", "q_proj", "k_proj", "v_proj")

FAMILIES: dict[str, Family] = {
    "bert": BERT,
    "roberta": BERT,
    "xlm-roberta": BERT,
    "electra": BERT,
    "distilbert": encoder("transformer.layer", "attention", "out_lin", "q_lin", "k_lin", "v_lin"),
    "mpnet": encoder("encoder.layer", "attention.attn", "o", "q", "k", "v"),
    "gpt2": Family((Stack("h", {"": "attn"}),), "c_proj", ("c_attn",), "fused"),
    "gpt_neox": Family((Stack("layers", {"": "attention"}),), "dense", ("query_key_value",), "interleaved"),
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "smollm3": LLAMA,
    "marian": Family(
        (
            Stack("encoder.layers", {"enc.": "self_attn"}, "enc."),
            Stack("decoder.layers", {"dec.": "self_attn", "cross.": "encoder_attn"}, "dec."),
        ),
        "out_proj",
    ),
    "t5": Family(
        (
            Stack("encoder.block", {"enc.": "layer.0.SelfAttention"}, "enc."),
            Stack("decoder.block", {"dec.": "layer.0.SelfAttention", "cross.": "layer.1.EncDecAttention"}, "dec."),
        ),
        "o",
        ("q", "k", "v"),
    ),
}


@dataclass(frozen=True)
class Attention:
    """One attention of a model: its key in gates and maps ("L0", "enc.L0"), and its place in the state dict."""

    key: str
    path: str
    out: nn.Module
    heads: int
    kv_heads: int


def family_of(model: nn.Module) -> Family:
    return FAMILIES[model.config.model_type]


def is_seq2seq(model: nn.Module) -> bool:
    return len(family_of(model).stacks) > 1


def base_model(model: nn.Module) -> tuple[str, nn.Module]:
    """The model without its task, and what the names of its tensors start with in the state dict."""
    inside = getattr(model, model.base_model_prefix, None)
    return ("", model) if inside is None else (model.base_model_prefix + ".", inside)


def layer_lists(model: nn.Module) -> Iterator[tuple[Stack, nn.ModuleList]]:
    _, base = base_model(model)
    for stack in family_of(model).stacks:
        yield stack, base.get_submodule(stack.layers)


def head_counts(model: nn.Module, prefix: str) -> tuple[int, int]:
    config = model.config
    if config.model_type == "marian":
        heads = config.encoder_attention_heads if prefix == "enc." else config.decoder_attention_heads
        return heads, heads
    heads = config.num_attention_heads
    return heads, getattr(config, "num_key_value_heads", None) or heads


def attentions(model: nn.Module) -> list[Attention]:
    found = []
    for stack, layers in layer_lists(model):
        for prefix, inside in stack.attentions.items():
            for l, layer in enumerate(layers):
                heads, kv_heads = head_counts(model, prefix)
                path = f"{base_model(model)[0]}{stack.layers}.{l}.{inside}"
                out = layer.get_submodule(inside).get_submodule(family_of(model).out)
                found.append(Attention(f"{prefix}L{l}", path, out, heads, kv_heads))
    return found


def as_tensor(value: torch.Tensor | tuple) -> torch.Tensor:
    return value[0] if isinstance(value, tuple) else value
