"""Random weights under which every part of a model matters: peaked attention, no bias of zero, no norm of one."""

from __future__ import annotations

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

QUERY_KEY = ("query", "key", "q_lin", "k_lin", "q_proj", "k_proj", "c_attn", ".q", ".k", "q_norm", "k_norm")


def is_norm(module: nn.Module) -> bool:
    return "Norm" in type(module).__name__


def gain(name: str, peak: float) -> float:
    return peak if name.endswith(QUERY_KEY) or "query_key_value" in name else 1.0


@torch.no_grad()
def randomize(model: nn.Module, seed: int, peak: float = 1.8, embedding: float = 0.8) -> None:
    """Draws all weights anew. `peak` scales the projections to queries and keys, `embedding` the embeddings."""
    torch.manual_seed(seed)
    unscaled = model.config.model_type == "t5"  # has no 1/√D in front of its scores
    drawn: set[int] = set()
    for name, module in model.named_modules():
        for field, parameter in module.named_parameters(recurse=False):
            if id(parameter) in drawn or not parameter.requires_grad:
                continue  # tied to an embedding, or Marian's sinusoids
            drawn.add(id(parameter))
            noise = torch.randn(parameter.shape)
            if isinstance(module, nn.Embedding):
                noise *= 1.0 if name.endswith("relative_attention_bias") else embedding
            elif is_norm(module) and field == "weight":
                noise = (1 + 0.3 * noise) * gain(name, peak)
            elif parameter.dim() == 1:
                noise *= 0.3
            else:
                fan_in = parameter.shape[0] if isinstance(module, Conv1D) else parameter.shape[1]
                noise *= gain(name, peak) * fan_in**-0.5
                if unscaled and name.endswith(".q"):
                    noise *= model.config.d_kv**-0.5
            parameter.copy_(noise)
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            buffer.copy_(torch.randn(buffer.shape))
