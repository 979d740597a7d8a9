"""What a mask of transformers means to the kernel.

The kernel wants structure: which keys each row sees, as an interval around its position. transformers gives booleans
[B, 1, N, M]. `read_mask` finds the structure and proves it; a mask without one becomes a dense bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.errors import Error

UNLIMITED = -1
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Structure:
    """Rows and keys cut into sequences, and a window around the position of each row."""

    q_offsets: Ints
    k_offsets: Ints
    k_lengths: Ints
    q_lengths: Ints | None = None  # rows after them are padding: nobody sees their own key
    positions: Ints | None = None  # of every row in its sequence; None: the last row is beside the last key
    left: int = UNLIMITED
    right: int = UNLIMITED
    # Whether sequence b of the batch is sequence b here, which a dense bias needs.
    is_batch: bool = True


def whole(batch: int, rows: int, keys: int, causal: bool) -> Structure:
    """Every row sees every key, or those up to its own."""
    return Structure(
        q_offsets=np.arange(batch + 1, dtype=np.int64) * rows,
        k_offsets=np.arange(batch + 1, dtype=np.int64) * keys,
        k_lengths=np.full(batch, keys, np.int64),
        right=0 if causal else UNLIMITED,
    )


@dataclass(frozen=True)
class Mask:
    """A mask of transformers, read: booleans [B, 1 or H, N, M] or a bias, and the structure if it has one."""

    seen: torch.Tensor | None
    bias: torch.Tensor | None
    structure: Structure | None


def read_mask(mask: torch.Tensor, batch: int, keys: int, causal: bool) -> Mask:
    """Reads a mask [B or 1, 1 or H, N, M or more]. The result is remembered with the tensor, for the next layer."""
    key = (mask._version, batch, keys, causal)
    known = getattr(mask, "_headwise_mask", None)
    if known is None or known[0] != key:
        known = (key, _read(mask.detach(), batch, keys, causal))
        mask._headwise_mask = known  # type: ignore[attr-defined]
    return known[1]


def _read(mask: torch.Tensor, batch: int, keys: int, causal: bool) -> Mask:
    if mask.ndim != 4 or mask.shape[0] not in (1, batch) or mask.shape[3] < keys:
        raise Error("attention: the shape of the mask does not fit", got=str(list(mask.shape)),
                    expected=f"[{batch}, 1, rows, {keys}]")
    mask = mask[..., :keys].expand(batch, -1, -1, -1)
    if mask.dtype == torch.bool:
        return Mask(mask, None, _find(mask, causal))
    if not mask.dtype.is_floating_point:
        raise Error("attention: a mask of integers", got=str(mask.dtype), expected="booleans or an additive bias")
    seen = mask == 0
    if bool((seen | (mask <= torch.finfo(mask.dtype).min / 2)).all()):
        return Mask(seen, None, _find(seen, causal))
    return Mask(None, mask.float(), None)


def _find(mask: torch.Tensor, causal: bool) -> Structure | None:
    if mask.shape[1] != 1:
        return None
    seen = mask[:, 0]
    rows, keys = seen.shape[1:]
    if rows == 0 or keys == 0:
        return None
    index = torch.arange(keys, device=mask.device)
    count = seen.sum(-1)
    first = seen.to(torch.uint8).argmax(-1)
    last = first + count
    if not torch.equal((index >= first[..., None]) & (index < last[..., None]), seen):
        return None  # a row sees keys with gaps between them
    begin, end = first.cpu().numpy(), last.cpu().numpy()
    end[begin == end] = begin[begin == end] = 0
    natural = np.arange(rows) + keys - rows  # the last row beside the last key
    guesses = [np.broadcast_to(natural, end.shape), np.broadcast_to(np.arange(rows), end.shape)]
    if causal:  # a cache that is longer than what it holds
        guesses.insert(0 if rows == 1 else 2, end - 1)
    for positions in guesses:
        found = _fit(begin, end, positions, keys, causal)
        if found is not None:
            return found
    return None


def _fit(begin: Ints, end: Ints, positions: Ints, keys: int, causal: bool) -> Structure | None:
    """The structure in which rows at these positions see keys [begin, end), or None."""
    batch, rows = begin.shape
    q_offsets, k_offsets, k_lengths, q_lengths = [0], [0], [], []
    padding = _padding(begin, end, keys) if rows == keys else np.zeros((batch, rows), bool)
    local = positions.astype(np.int64, copy=True)
    lefts, rights = [], []
    is_batch = True
    runs_of_batch = []
    for b in range(batch):
        runs = _runs(begin[b], end[b], keys)
        runs_of_batch.append(runs)
        is_batch &= len(runs) == 1 and runs[0].first_key == 0
        for run in runs:
            at = slice(run.first_row, run.end_row)
            local[b, at] -= run.first_key
            if run.seen == run.first_key:
                continue
            lo, hi, p = begin[b, at], end[b, at], positions[b, at]
            lefts.append((p - lo)[lo > run.first_key])
            rights.append((hi - 1 - p)[hi < run.seen])
    left, right = _only(lefts), _only(rights)
    if left is None or right is None:
        return None
    for b, runs in enumerate(runs_of_batch):
        for run in runs:
            at = slice(run.first_row, run.end_row)
            lo, hi, p = begin[b, at], end[b, at], positions[b, at]
            if run.seen > run.first_key:
                low = run.first_key if left == UNLIMITED else np.maximum(run.first_key, p - left)
                high = run.seen if right == UNLIMITED else np.minimum(run.seen, p + right + 1)
                if np.any(lo != low) or np.any(hi != high):
                    return None
            q_offsets.append(b * rows + run.end_row)
            k_offsets.append(b * keys + run.end_key)
            k_lengths.append(run.seen - run.first_key)
            real = np.flatnonzero(~padding[b, at])
            q_lengths.append(real[-1] + 1 if len(real) else 0)
    if right == UNLIMITED and causal and np.all(end - 1 <= positions):
        right = 0
    return Structure(
        q_offsets=np.array(q_offsets, np.int64), k_offsets=np.array(k_offsets, np.int64),
        k_lengths=np.array(k_lengths, np.int64), q_lengths=np.array(q_lengths, np.int64),
        positions=local.reshape(-1), left=left, right=right, is_batch=is_batch,
    )


@dataclass
class _Run:
    """Rows [first_row, end_row) and keys [first_key, end_key), of which they see those before `seen`."""

    first_row: int
    end_row: int
    first_key: int
    seen: int
    end_key: int


def _runs(begin: Ints, end: Ints, keys: int) -> list[_Run]:
    """Rows of one text cut where the keys that they see are others, in order."""
    rows = len(begin)
    empty = begin == end
    farthest = np.maximum.accumulate(end)
    before = np.concatenate(([0], farthest[:-1]))
    starts = ~empty & (begin >= before) & (before > 0)
    changes = np.concatenate(([False], empty[1:] != empty[:-1]))
    cuts = [0, *np.flatnonzero(starts | changes).tolist(), rows]
    runs: list[_Run] = []
    key = 0
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        if empty[first]:
            runs.append(_Run(first, last, key, key, key))
            continue
        low, high = int(begin[first:last].min()), int(end[first:last].max())
        if low < key:  # keys of an earlier run: one run for all, which the caller checks
            return [_Run(0, rows, 0, int(end.max()), keys)]
        if low > key:
            runs.append(_Run(first, first, key, key, low))
        runs.append(_Run(first, last, low, high, high))
        key = high
    runs[-1].end_key = keys
    return runs


def _only(parts: list[Ints]) -> int | None:
    """The one number of keys that all are; UNLIMITED of none, None of several."""
    values = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    if len(values) == 0:
        return UNLIMITED
    return int(values[0]) if len(values) == 1 and values[0] >= 0 else None


def _padding(begin: Ints, end: Ints, keys: int) -> NDArray[np.bool_]:
    """Keys [B, M] that no row sees."""
    batch = begin.shape[0]
    changes = np.zeros((batch, keys + 1), np.int64)
    text = np.broadcast_to(np.arange(batch)[:, None], begin.shape)
    np.add.at(changes, (text, begin), 1)
    np.add.at(changes, (text, end), -1)
    unseen: NDArray[np.bool_] = changes.cumsum(-1)[:, :keys] == 0
    return unseen


def dense_bias(seen: torch.Tensor) -> torch.Tensor:
    """Booleans as a bias: 0, and -infinity for keys that a row does not see."""
    return torch.zeros(seen.shape, device=seen.device).masked_fill(~seen, -torch.inf)
