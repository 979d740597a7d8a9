"""What is asked of the heads of one attention module while its model runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch

from headwise.attention import HeadStatistics

#: Sees the head outputs z [B, N, H, Dv], after gates, and may return others.
ZHook = Callable[[torch.Tensor], torch.Tensor | None]


@dataclass
class AttentionState:
    """Gates, hooks and requests of one attention module."""

    cross: bool = False
    gates: torch.Tensor | None = None  # [H] or [B, H]
    z_hooks: list[ZHook] = field(default_factory=list)
    statistics: list[HeadStatistics] = field(default_factory=list)  # that are added to
    maps: list[tuple[list[int], list[torch.Tensor]]] = field(default_factory=list)  # of these heads, to these lists


_states: WeakKeyDictionary[torch.nn.Module, AttentionState] = WeakKeyDictionary()


def state_of(module: torch.nn.Module) -> AttentionState | None:
    """The state of a module, if a Heads was made for its model."""
    return _states.get(module)


def make_state(module: torch.nn.Module, cross: bool) -> AttentionState:
    """The state of a module, made if needed."""
    return _states.setdefault(module, AttentionState(cross=cross))
