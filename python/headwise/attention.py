"""Attention on NumPy arrays, with gates and statistics for every head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise import _core
from headwise.errors import Error

if TYPE_CHECKING:
    from typing_extensions import Unpack

Floats = NDArray[np.float32]


class HeadStatistics(Mapping[str, NDArray[np.float64]]):
    """Means of every statistic of attention weights, one number for each head; NaN where no row counts.

    Statistics add up over calls: `total += attention(..., observe=True)[1]`. docs/measures.md defines them.
    """

    def __init__(self, sums: Mapping[str, tuple[NDArray[np.float64], NDArray[np.int64]]] | None = None) -> None:
        self._sums = dict(sums or {})

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        total, rows = self._sums[name]
        with np.errstate(invalid="ignore"):
            return total / rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._sums)

    def __len__(self) -> int:
        return len(self._sums)

    def rows(self, name: str) -> NDArray[np.int64]:
        """How many rows each mean is of."""
        return self._sums[name][1]

    def __iadd__(self, other: HeadStatistics) -> HeadStatistics:
        for name, (total, rows) in other._sums.items():
            before = self._sums.get(name)
            self._sums[name] = (total, rows) if before is None else (before[0] + total, before[1] + rows)
        return self

    def __repr__(self) -> str:
        return f"HeadStatistics({', '.join(self)})"


class AttentionOptions(TypedDict, total=False):
    """Parameters of `attention` and `attention_maps`; `attention` says what they are."""

    causal: bool
    window: tuple[int, int] | None
    lengths: ArrayLike | None
    scale: float | None
    softcap: float
    bias: ArrayLike | None
    sinks: ArrayLike | None
    alibi_slopes: ArrayLike | None


@overload
def attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, *, gates: ArrayLike | None = ..., observe: Literal[False] = ...,
    cross: bool = ..., **options: Unpack[AttentionOptions]
) -> Floats: ...
@overload
def attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, *, gates: ArrayLike | None = ..., observe: Literal[True],
    cross: bool = ..., **options: Unpack[AttentionOptions]
) -> tuple[Floats, HeadStatistics]: ...
def attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, *, gates: ArrayLike | None = None, observe: bool = False,
    cross: bool = False, **options: Unpack[AttentionOptions]
) -> Floats | tuple[Floats, HeadStatistics]:
    """softmax(scale q kᵀ + bias) v for every head, fused: the maps are never stored.

    Arrays are laid out as in torch: q [..., H, N, D], k [..., K, M, D] and v [..., K, M, Dv], with H a multiple of K. The
    result is [..., H, N, Dv]. The last row of q stands beside the last key, as with a cache.

    gates         [H] or [B, H]: factors on the heads. A gate of 0 skips the head's work.
    causal        rows see no key after their own.
    window        (left, right): how many keys before and after its own a row sees.
    lengths       [B]: how many keys of each sequence are real.
    scale         of the scores; 1 / sqrt(D) unless given.
    softcap       scores become softcap * tanh(scores / softcap).
    bias          [H, N, M] or [B, H, N, M]: added to the scores.
    sinks         [H]: the score of an extra key without a value.
    alibi_slopes  [H]: adds -slope * distance to the scores.
    observe       also returns the statistics of every head.
    cross         queries and keys are of different sequences; for statistics.
    """
    problem, (batch, heads, rows, width) = _problem(q, k, v, gates, **options)
    out = np.empty((batch * rows, heads, width), np.float32)
    sums: Any = problem.forward(out, observe=observe, cross=cross)
    shaped = out.reshape(batch, rows, heads, width).swapaxes(1, 2).reshape(*np.shape(q)[:-1], width)
    return (shaped, HeadStatistics(sums)) if observe else shaped


def attention_maps(q: ArrayLike, k: ArrayLike, **options: Unpack[AttentionOptions]) -> Floats:
    """The weights [..., H, N, M] of every head: softmax(scale q kᵀ + bias). Those of keys that a row does not see are 0.

    Takes the options of `attention`, from `causal` to `alibi_slopes`. Memory grows with N × M; `attention(..., observe=True)`
    measures weights without it.
    """
    problem, (batch, heads, rows, _) = _problem(q, k, k, None, **options)
    maps: Floats = problem.maps()
    keys = np.shape(k)[-2]
    return maps.reshape(batch, rows, heads, keys).swapaxes(1, 2).reshape(*np.shape(q)[:-1], keys)


def _problem(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    gates: ArrayLike | None,
    *,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    lengths: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: ArrayLike | None = None,
    sinks: ArrayLike | None = None,
    alibi_slopes: ArrayLike | None = None,
) -> tuple[Any, tuple[int, int, int, int]]:
    """The problem of the kernel, and the shape [B, H, N, Dv] of its outputs."""
    queries, keys, values = (_four(name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    batch, heads, rows = queries.shape[:3]
    key_rows = keys.shape[2]
    if keys.shape[0] != batch or values.shape[0] != batch or values.shape[2] != key_rows:
        raise Error("attention: the shapes of q, k and v do not fit", got=f"{np.shape(q)}, {np.shape(k)}, {np.shape(v)}",
                    expected="q [B, H, N, D], k [B, K, M, D], v [B, K, M, Dv]")
    left, right = window if window is not None else (-1, -1)
    own_gates = None if gates is None else np.atleast_2d(np.asarray(gates, np.float32))
    own_bias = None if bias is None else np.ascontiguousarray(bias, np.float32)
    if own_bias is not None:
        own_bias = np.broadcast_to(own_bias, (batch, heads, *own_bias.shape[-2:]))
    problem = _core.Attention(
        _rows(queries), _rows(keys), _rows(values),
        np.arange(batch + 1, dtype=np.int64) * rows,
        k_offsets=np.arange(batch + 1, dtype=np.int64) * key_rows,
        k_lengths=None if lengths is None else np.ascontiguousarray(lengths, np.int64),
        causal=causal, left=left, right=right, scale=scale, softcap=softcap,
        alibi_slopes=_list(alibi_slopes), bias=own_bias, sinks=_list(sinks), gates=own_gates,
        gate_scope="head" if own_gates is None or own_gates.shape[0] == 1 else "sequence",
    )
    return problem, (batch, heads, rows, values.shape[3])


def _four(name: str, array: ArrayLike) -> Floats:
    given = np.asarray(array, np.float32)
    if given.ndim < 3:
        raise Error(f"attention: {name} has too few dimensions", got=str(given.shape), expected="[..., heads, rows, width]")
    return given.reshape(math.prod(given.shape[:-3]), *given.shape[-3:])


def _rows(array: Floats) -> Floats:
    """[B, H, N, D] as [B * N, H, D], without a copy where the layout allows."""
    batch, heads, rows, width = array.shape
    return array.swapaxes(1, 2).reshape(batch * rows, heads, width)


def _list(values: ArrayLike | None) -> Floats | None:
    return None if values is None else np.ascontiguousarray(values, np.float32)
