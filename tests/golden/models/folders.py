"""Rewrites of a folder into forms found in the wild: older tensor names, needless tensors, configs of version 4."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Rewrite = Callable[[pathlib.Path], None]
Tensors = dict[str, torch.Tensor]


def tensors(change: Callable[[Tensors], Tensors]) -> Rewrite:
    def rewrite(folder: pathlib.Path) -> None:
        file = folder / "model.safetensors"
        changed = {name: tensor.clone().contiguous() for name, tensor in change(load_file(file)).items()}
        save_file(changed, file, {"format": "pt"})

    return rewrite


def config(change: Callable[[dict[str, Any]], None]) -> Rewrite:
    def rewrite(folder: pathlib.Path) -> None:
        file = folder / "config.json"
        values = json.loads(file.read_text())
        change(values)
        file.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")

    return rewrite


def both(first: Rewrite, second: Rewrite) -> Rewrite:
    def rewrite(folder: pathlib.Path) -> None:
        first(folder)
        second(folder)

    return rewrite


def renamed(pattern: str, replacement: str) -> Callable[[Tensors], Tensors]:
    return lambda stored: {re.sub(pattern, replacement, name): tensor for name, tensor in stored.items()}


def with_config_of_version_4(values: dict[str, Any]) -> None:
    """rope_theta at the top, rope_scaling beside it, torch_dtype, and nothing that version 5 derives."""
    rope = values.pop("rope_parameters", None)
    if rope:
        values["rope_theta"] = rope.pop("rope_theta")
        rope.pop("partial_rotary_factor", None)
        values["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    values["torch_dtype"] = values.pop("dtype")
    values.pop("layer_types", None)
    values["transformers_version"] = "4.41.0"


def with_rope_named_type(values: dict[str, Any]) -> None:
    with_config_of_version_4(values)
    values["rope_scaling"]["type"] = values["rope_scaling"].pop("rope_type")


def with_neox_config_of_version_4(values: dict[str, Any]) -> None:
    rope = values.pop("rope_parameters")
    values["rotary_emb_base"] = rope["rope_theta"]
    values["rotary_pct"] = rope["partial_rotary_factor"]
    values["torch_dtype"] = values.pop("dtype")


def with_t5_config_of_version_4(values: dict[str, Any]) -> None:
    values["tie_word_embeddings"] = values.pop("scale_decoder_outputs")


def bert_of_2018(stored: Tensors) -> Tensors:
    stored = renamed(r"LayerNorm\.weight", "LayerNorm.gamma")(stored)
    stored = renamed(r"LayerNorm\.bias", "LayerNorm.beta")(stored)
    positions = stored["bert.embeddings.position_embeddings.weight"].shape[0]
    return stored | {"bert.embeddings.position_ids": torch.arange(positions)[None]}


def roberta_with_copies(stored: Tensors) -> Tensors:
    positions = stored["roberta.embeddings.position_embeddings.weight"].shape[0]
    return stored | {
        "roberta.embeddings.position_ids": torch.arange(positions)[None],
        "lm_head.decoder.weight": stored["roberta.embeddings.word_embeddings.weight"],
        "lm_head.decoder.bias": stored["lm_head.bias"],
    }


def gpt2_without_prefix(stored: Tensors) -> Tensors:
    stored = renamed(r"^transformer\.", "")(stored)
    positions = stored["wpe.weight"].shape[0]
    mask = torch.ones(positions, positions).tril().view(1, 1, positions, positions)
    layers = {name.split(".")[1] for name in stored if name.startswith("h.")}
    return stored | {f"h.{l}.attn.bias": mask for l in layers}


def neox_with_buffers(stored: Tensors) -> Tensors:
    layers = {name.split(".")[2] for name in stored if ".layers." in name}
    for l in layers:
        attention = f"gpt_neox.layers.{l}.attention."
        stored[attention + "bias"] = torch.ones(1, 1, 8, 8, dtype=torch.bool).tril()
        stored[attention + "masked_bias"] = torch.tensor(-1e9)
        stored[attention + "rotary_emb.inv_freq"] = torch.ones(1)
    return stored


def llama_with_frequencies(stored: Tensors) -> Tensors:
    layers = {name.split(".")[2] for name in stored if ".layers." in name}
    return stored | {f"model.layers.{l}.self_attn.rotary_emb.inv_freq": torch.ones(3) for l in layers}


def sinusoids(positions: int, width: int) -> torch.Tensor:
    """[positions, width]: sines in the first half, cosines in the second."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / 10000**exponents
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def marian_with_copies(stored: Tensors) -> Tensors:
    shared = stored["model.shared.weight"]
    for side in ("encoder", "decoder"):
        stored[f"model.{side}.embed_tokens.weight"] = shared
        stored[f"model.{side}.embed_positions.weight"] = sinusoids(32, shared.shape[1])
    return stored | {"lm_head.weight": shared}


def t5_with_copies(stored: Tensors) -> Tensors:
    table = stored["decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    return stored | {
        "encoder.embed_tokens.weight": stored["shared.weight"],
        "decoder.embed_tokens.weight": stored["shared.weight"],
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.randn_like(table),
    }
