"""Attention of the C++ kernel as a function that torch can differentiate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import FunctionCtx, once_differentiable

from headwise import _core
from headwise.torch.masks import Structure

# Its stub names NumPy arrays; tensors come in as well, without a copy.
_Problem: Any = _core.Attention


@dataclass(frozen=True)
class Options:
    """The parameters of one attention that are no tensors."""

    structure: Structure
    scale: float
    softcap: float = 0.0
    dropout: float = 0.0
    seed: int = 0
    observe: bool = False  # padding rows then have output 0, because they have no statistics
    cross: bool = False


class _Attention(torch.autograd.Function):
    """q [T, H, D], k [S, K, D], v [S, K, Dv] and, if not None, bias [B, H, N, M], sinks [H], gates [1 or B, H]; float32."""

    @staticmethod
    def forward(
        ctx: Any,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        bias: torch.Tensor | None,
        sinks: torch.Tensor | None,
        gates: torch.Tensor | None,
        options: Options,
        sums: dict[str, Any],
    ) -> torch.Tensor:
        out = torch.empty(q.shape[0], q.shape[1], v.shape[2])
        lse = torch.empty(q.shape[0], q.shape[1])
        found = _problem(q, k, v, bias, sinks, gates, options).forward(
            out, lse, observe=options.observe, cross=options.cross
        )
        sums.update(found or {})
        ctx.save_for_backward(q, k, v, bias, sinks, gates, out, lse)
        ctx.options = options
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, bias, sinks, gates, out, lse = ctx.saved_tensors
        inputs = (q, k, v, bias, sinks, gates)
        gradients = [
            torch.empty(x.shape) if needed and x is not None else None
            for x, needed in zip(inputs, ctx.needs_input_grad, strict=False)
        ]
        dq, dk, dv, dbias, dsinks, dgates = gradients
        _problem(*inputs, ctx.options).backward(
            out, lse, dout, dq=dq, dk=dk, dv=dv, dgates=dgates, dbias=dbias, dsinks=dsinks
        )
        return *gradients, None, None


def attention_rows(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    options: Options,
    *,
    bias: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    gates: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, Any]]:
    """The outputs [T, H, Dv] and, if asked to observe, the sums of the statistics."""
    sums: dict[str, Any] = {}
    return _Attention.apply(q, k, v, bias, sinks, gates, options, sums), sums


def _problem(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    gates: torch.Tensor | None,
    options: Options,
) -> Any:
    shape = options.structure
    return _Problem(
        *(x.detach() for x in (q, k, v)),
        shape.q_offsets,
        k_offsets=shape.k_offsets,
        q_lengths=shape.q_lengths if options.observe else None,
        k_lengths=shape.k_lengths,
        positions=shape.positions,
        left=shape.left,
        right=shape.right,
        scale=options.scale,
        softcap=options.softcap,
        bias=None if bias is None else bias.detach(),
        sinks=None if sinks is None else sinks.detach().contiguous(),
        dropout=options.dropout,
        seed=options.seed,
        gates=None if gates is None else gates.detach(),
        gate_scope="head" if gates is None or gates.shape[0] == 1 else "sequence",
    )
