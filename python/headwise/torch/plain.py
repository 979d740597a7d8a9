"""The same attention in plain torch operations: for devices without the kernel, and for maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headwise.torch.function import Options
from headwise.torch.masks import UNLIMITED, Structure


def plain_weights(
    query: torch.Tensor,
    key: torch.Tensor,
    options: Options,
    *,
    bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """The weights [B, H, N, M] of q [B, H, N, D] and k [B, K, M, D], before dropout and gates."""
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query @ key.transpose(2, 3) * options.scale
    if options.softcap:
        scores = options.softcap * torch.tanh(scores / options.softcap)
    if bias is not None:
        scores = scores + bias.clamp(min=-1e30)
    batch, _, rows, keys = scores.shape
    seen = seen_keys(options.structure, batch, rows, keys, scores.device)
    some = seen.any(-1, keepdim=True)  # softmax of nothing is NaN, also in the gradient
    scores = scores.masked_fill(~seen & some, -torch.inf)
    if sinks is not None:
        extra = sinks[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, extra], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., :keys]
    return weights.masked_fill(~seen, 0.0)


def seen_keys(shape: Structure, batch: int, rows: int, keys: int, device: torch.device) -> torch.Tensor:
    """Booleans [B, 1, N, M]: which keys each row sees."""
    places = _Places(shape, batch, rows, keys)
    index = np.arange(keys)
    low = places.first if shape.left == UNLIMITED else np.maximum(places.first, places.position - shape.left)
    high = places.end if shape.right == UNLIMITED else np.minimum(places.end, places.position + shape.right + 1)
    seen = (index >= low[..., None]) & (index < high[..., None])
    return torch.from_numpy(seen)[:, None].to(device)


class _Places:
    """Of every row [B, N]: its position and the keys of its sequence, in keys of the text."""

    def __init__(self, shape: Structure, batch: int, rows: int, keys: int) -> None:
        counts = np.diff(shape.q_offsets)
        first = shape.k_offsets[:-1] % keys if keys else shape.k_offsets[:-1]
        position = shape.positions
        if position is None:
            beside = np.repeat(np.diff(shape.k_offsets) - counts - shape.q_offsets[:-1], counts)
            position = beside + np.arange(batch * rows)
        self.first = np.repeat(first, counts).reshape(batch, rows)
        self.end = np.repeat(first + shape.k_lengths, counts).reshape(batch, rows)
        self.position = position.reshape(batch, rows) + self.first
        real = counts if shape.q_lengths is None else shape.q_lengths
        index = np.arange(batch * rows) - np.repeat(shape.q_offsets[:-1], counts)
        self.index = index.reshape(batch, rows)
        self.real_rows = np.repeat(real, counts).reshape(batch, rows)
        self.real = self.index < self.real_rows


def plain_statistics(weights: torch.Tensor, options: Options, sinks: bool) -> dict[str, Any]:
    """The statistics of weights [B, H, N, M] as sums and numbers of rows, as the kernel gives them."""
    batch, heads, rows, keys = weights.shape
    places = _Places(options.structure, batch, rows, keys)
    seen = seen_keys(options.structure, batch, rows, keys, weights.device)[:, 0].cpu().numpy()
    p = weights.detach().double().cpu().numpy().transpose(1, 0, 2, 3)  # [H, B, N, M]
    index = np.arange(keys)
    counted = places.real & seen.any(-1)
    visible = seen.sum(-1)
    distance = np.abs(index - places.position[..., None])
    right = options.structure.right
    sums: dict[str, Any] = {}

    def add(name: str, values: np.ndarray, of: np.ndarray) -> None:
        sums[name] = (np.where(of, values, 0).sum((1, 2)), np.full(heads, of.sum(), np.int64))

    def at(key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = np.clip(key, 0, keys - 1)[None, ..., None]
        value = np.take_along_axis(p, np.broadcast_to(inside, (heads, batch, rows, 1)), -1)[..., 0]
        sees = np.take_along_axis(seen, inside[0], -1)[..., 0] & (key >= 0) & (key < keys)
        return value, counted & sees

    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    add("entropy", entropy, counted)
    add("entropy_ratio", entropy / np.log(np.maximum(visible, 2)), counted & (visible > 1))
    add("confidence", p.max(-1, initial=0), counted)
    add("mass_first", at(places.first)[0], counted)
    last, sees_last = at(places.end - 1)
    add("mass_last", np.where(sees_last, last, 0), sees_last if right == 0 else counted)
    add("mass_sink", 1 - p.sum(-1), counted & sinks)
    own = counted & (not options.cross)
    for name, offset in (("mass_previous", -1), ("mass_self", 0), ("mass_next", 1)):
        value, sees = at(places.position + offset)
        add(name, value, sees & own)
    add("mass_window", (p * (distance <= 2)).sum(-1), own)
    share = (index - places.first[..., None]) / np.maximum(places.end - places.first, 1)[..., None]
    near = np.abs(share - (places.index / np.maximum(places.real_rows, 1))[..., None]) <= 0.1
    add("mass_diagonal", (p * near).sum(-1), counted & options.cross)
    add("distance", (p * distance).sum(-1), own)
    return sums


def plain_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    options: Options,
    *,
    bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    gates: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """The outputs [B, N, H, Dv] and, if asked to observe, the sums of the statistics."""
    weights = plain_weights(query, key, options, bias=bias, sinks=sinks)
    sums = plain_statistics(weights, options, sinks is not None) if options.observe else {}
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)
    out = (torch.dropout(weights, options.dropout, train=True) @ value).transpose(1, 2)
    return (out if gates is None else out * gates[:, None, :, None]), sums
