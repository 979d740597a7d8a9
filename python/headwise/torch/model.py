"""The heads of a transformers model: gates, ablation, statistics, maps, outputs and gradients, by name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import numpy as np
import torch

from headwise.attention import HeadStatistics
from headwise.errors import Error
from headwise.heads import HeadNames, HeadsLike
from headwise.table import table
from headwise.torch.state import AttentionState, ZHook, make_state

_CROSS = re.compile(r"(^|\.)(EncDecAttention|encoder_attn|crossattention|cross_attn|cross_attention|encoder_attention)\b")
_COUNTS = ("num_attention_heads", "num_heads", "n_heads", "n_head", "attention_heads")


class Heads:
    """The attention heads of a model that was loaded with `attn_implementation="headwise"`.

    Heads are named "L3.H1"; in models with an encoder and a decoder "enc.L3.H1", "dec.L3.H1" and "cross.L3.H1". Where
    heads are asked for, "L3.H1", "L3", "all", (3, 1), [(3, 1), (4, 0)], {3: [1, 4]} and boolean arrays [layers, heads] do.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        modules = _attentions(model)
        if not modules:
            raise Error("Heads: the model has no attention that transformers dispatches", got=type(model).__name__,
                        expected="a transformers model")
        used = {getattr(module.config, "_attn_implementation", None) for _, _, module in modules}
        if not any(_is_ours(name) for name in used):
            raise Error("Heads: the model does not run on headwise", got=f"attn_implementation={used.pop()!r}",
                        expected='attn_implementation="headwise"',
                        hint='Call headwise.torch.register() and model.set_attn_implementation("headwise").')
        self.modules = {name: module for name, _, module in modules}
        self._states: list[AttentionState] = [make_state(module, cross) for _, cross, module in modules]
        self._counts = [_head_count(module) for _, _, module in modules]
        self.names = HeadNames([(name, count) for (name, _, _), count in zip(modules, self._counts, strict=True)])

    def __len__(self) -> int:
        return sum(self._counts)

    @property
    def shape(self) -> tuple[int, int]:
        """[layers, heads] of an array of gates: the number of attentions, and the most heads of one."""
        return len(self._counts), max(self._counts)

    def __iter__(self) -> Iterator[Head]:
        return (Head(self, site, h) for site, count in enumerate(self._counts) for h in range(count))

    def __getitem__(self, head: HeadsLike) -> Head:
        found = self.names.find(head)
        if len(found) != 1:
            raise Error("Heads: not one head", got=f"{head!r}: {len(found)} heads", expected='one, as in "L3.H1"')
        return Head(self, *found[0])

    @contextmanager
    def gates(self, gates: Mapping[Any, float] | np.ndarray | torch.Tensor) -> Iterator[torch.Tensor]:
        """Gates of the heads, until the block ends: {"L3.H1": 0, "L5": 0.5}, or an array [layers, heads].

        Gates multiply those of an outer block. Yields them as a tensor [layers, heads]. A tensor that requires a gradient
        gets it from backward().
        """
        table = self._gate_table(gates)
        before = [state.gates for state in self._states]
        for site, (state, count) in enumerate(zip(self._states, self._counts, strict=True)):
            own = table[site, :count]
            state.gates = own if state.gates is None else state.gates * own
        try:
            yield table
        finally:
            for state, gate in zip(self._states, before, strict=True):
                state.gates = gate

    @contextmanager
    def ablate(
        self,
        heads: HeadsLike,
        how: Literal["zero", "mean", "resample"] = "zero",
        *,
        means: Mapping[str, torch.Tensor] | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[None]:
        """Ablates heads until the block ends: their outputs become 0, their mean, or those of another text of the batch.

        `means` has the mean output of each head, from `mean_outputs()`.
        """
        pairs = self.names.find(heads)
        if how == "zero":
            with self.gates({self._name(*pair): 0.0 for pair in pairs}):
                yield
            return
        hooks: dict[int, ZHook] = {}
        for site, chosen in _by_site(pairs).items():
            if how == "mean":
                hooks[site] = self._mean_hook(site, chosen, means)
            elif how == "resample":
                hooks[site] = _resample_hook(chosen, generator)
            else:
                raise Error("ablate: unknown kind", got=repr(how), expected="zero, mean or resample")
        with self._hooked(hooks):
            yield

    @contextmanager
    def observe(self) -> Iterator[dict[str, HeadStatistics]]:
        """Statistics of the weights of every head, while the model runs or trains. No maps are stored.

        Yields a dictionary with one HeadStatistics for each attention ("L3"). Rows of padding do not count, and have
        output 0 meanwhile.
        """
        found = {name: HeadStatistics() for name in self.modules}
        with ExitStack() as stack:
            for state, statistics in zip(self._states, found.values(), strict=True):
                stack.enter_context(_during(state.statistics, statistics))
            yield found

    @contextmanager
    def maps(self, heads: HeadsLike) -> Iterator[dict[str, list[torch.Tensor]]]:
        """The weights [B, N, M] of chosen heads, one tensor for every time that the model runs."""
        found: dict[str, list[torch.Tensor]] = {}
        with ExitStack() as stack:
            runs = []
            for site, chosen in _by_site(self.names.find(heads)).items():
                maps: list[torch.Tensor] = []
                stack.enter_context(_during(self._states[site].maps, (chosen, maps)))
                runs.append((site, chosen, maps))
                found.update({self._name(site, h): [] for h in chosen})
            try:
                yield found
            finally:
                for site, chosen, maps in runs:
                    for i, h in enumerate(chosen):
                        found[self._name(site, h)].extend(run[:, i] for run in maps)

    @contextmanager
    def outputs(self, heads: HeadsLike = "all") -> Iterator[dict[str, torch.Tensor]]:
        """The outputs z [B, N, Dv] of heads after gates: what the output projection reads. Those of the last run."""
        found: dict[str, torch.Tensor] = {}

        def hook(site: int, chosen: list[int]) -> ZHook:
            def keep(z: torch.Tensor) -> None:
                found.update({self._name(site, h): z[:, :, h] for h in chosen})

            return keep

        with self._hooked({site: hook(site, chosen) for site, chosen in _by_site(self.names.find(heads)).items()}):
            yield found

    @contextmanager
    def mean_outputs(self, mask: torch.Tensor | None = None) -> Iterator[dict[str, torch.Tensor]]:
        """The mean output [Dv] of every head over all rows of all runs, for `ablate(…, "mean", means=…)`.

        `mask` [B, N] is 1 for real tokens, as the attention_mask of a tokenizer. It must fit every run.
        """
        found: dict[str, torch.Tensor] = {}
        sums: dict[int, tuple[torch.Tensor, float]] = {}

        def hook(site: int) -> ZHook:
            def add(z: torch.Tensor) -> None:
                real = torch.ones(z.shape[:2], device=z.device) if mask is None else mask.to(z.device, torch.float32)
                if real.shape != z.shape[:2]:
                    raise Error("mean_outputs: the mask does not fit", got=str(list(real.shape)),
                                expected=str(list(z.shape[:2])))
                total, rows = sums.get(site, (torch.zeros(z.shape[2:], dtype=torch.float64, device=z.device), 0.0))
                part = torch.einsum("bnhd,bn->hd", z.detach().double(), real.double())
                sums[site] = (total + part, rows + float(real.sum()))

            return add

        with self._hooked({site: hook(site) for site in range(len(self._states))}):
            yield found
        for site, (total, rows) in sums.items():
            for h in range(self._counts[site]):
                found[self._name(site, h)] = (total[h] / rows).float()

    def statistics_table(self, statistics: Mapping[str, HeadStatistics]) -> Any:
        """Statistics as a table with one row for each head: a pandas DataFrame if pandas is installed, else a `Table`."""
        columns: dict[str, Any] = {"head": self.names.names()}
        seen = [name for name in self.modules if len(statistics[name])]
        if len(seen) != len(self.modules):
            missing = [name for name in self.modules if name not in seen]
            raise Error("statistics: attentions that did not run", got=", ".join(missing), expected="a run of the model")
        for name in statistics[seen[0]]:
            columns[name] = np.concatenate([statistics[site][name] for site in self.modules])
        return table(columns).frame()

    def _name(self, site: int, head: int) -> str:
        return f"{self.names.attentions[site][0]}.H{head}"

    def _gate_table(self, gates: Mapping[Any, float] | np.ndarray | torch.Tensor) -> torch.Tensor:
        shape = self.shape
        if isinstance(gates, torch.Tensor) or not isinstance(gates, Mapping):
            table = torch.as_tensor(gates, dtype=torch.float32)
            if tuple(table.shape) != shape:
                raise Error("gates: the shape of the array does not fit", got=str(list(table.shape)),
                            expected=str(list(shape)))
            return table
        table = torch.ones(shape)
        for heads, gate in gates.items():
            for site, head in self.names.find(heads):
                table[site, head] = float(gate)
        return table

    def _mean_hook(self, site: int, chosen: list[int], means: Mapping[str, torch.Tensor] | None) -> ZHook:
        names = [self._name(site, h) for h in chosen]
        if means is None or any(name not in means for name in names):
            raise Error("ablate: mean ablation needs the mean outputs of its heads", got="none",
                        expected="means", hint="Take them from mean_outputs().")
        values = torch.stack([means[name] for name in names])

        def hook(z: torch.Tensor) -> torch.Tensor:
            z = z.clone()
            z[:, :, chosen] = values.to(z)
            return z

        return hook

    @contextmanager
    def _hooked(self, hooks: Mapping[int, ZHook]) -> Iterator[None]:
        with ExitStack() as stack:
            for site, hook in hooks.items():
                stack.enter_context(_during(self._states[site].z_hooks, hook))
            yield


class Head:
    """One head of a model."""

    def __init__(self, heads: Heads, site: int, index: int) -> None:
        self._heads = heads
        self.site = site
        self.index = index
        self.name = heads._name(site, index)

    def __repr__(self) -> str:
        return f"Head({self.name!r})"

    @contextmanager
    def hook(self, function: Callable[[torch.Tensor], torch.Tensor | None]) -> Iterator[None]:
        """Calls function(z) with the head's output z [B, N, Dv] whenever the model runs; it may return another."""

        def on_z(z: torch.Tensor) -> torch.Tensor | None:
            changed = function(z[:, :, self.index])
            if changed is None:
                return None
            z = z.clone()
            z[:, :, self.index] = changed
            return z

        with self._heads._hooked({self.site: on_z}):
            yield

    @contextmanager
    def gate(self, value: float) -> Iterator[None]:
        """A gate of this head until the block ends."""
        with self._heads.gates({self.name: value}):
            yield


def _is_ours(name: str | None) -> bool:
    from transformers import AttentionInterface

    from headwise.torch.interface import attention_forward

    return AttentionInterface._global_mapping.get(name) is attention_forward


def _attentions(model: torch.nn.Module) -> list[tuple[str, bool, torch.nn.Module]]:
    """Name, whether it is cross attention, and module, of every attention: encoder, decoder, cross attention."""
    found = []
    for path, module in model.named_modules():
        forward = inspect.unwrap(type(module).forward)
        code = getattr(forward, "__code__", None)
        if code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names and hasattr(module, "config"):
            found.append((path, module))
    config: Any = getattr(model, "config", None)
    cross = [bool(_CROSS.search(path)) or bool(getattr(m, "is_cross_attention", False)) for path, m in found]
    both = any(cross) or (getattr(config, "is_encoder_decoder", False) and _sides(found) > 1)
    counters: dict[str, int] = {}
    named = []
    for (path, module), is_cross in zip(found, cross, strict=True):
        side = "cross" if is_cross else "dec" if re.search(r"(^|\.)decoder\b", path) else "enc"
        if both and not is_cross and not re.search(r"(^|\.)(encoder|decoder)\b", path):
            side = "dec"
        side = side if both else ""
        layer = counters.get(side, 0)
        counters[side] = layer + 1
        named.append((f"{side}.L{layer}" if side else f"L{layer}", is_cross, module))
    order = {"enc": 0, "dec": 1, "cross": 2}
    return sorted(named, key=lambda one: order.get(one[0].split(".")[0], 0))


def _sides(found: list[tuple[str, torch.nn.Module]]) -> int:
    return len({match[0] for path, _ in found if (match := re.search(r"(encoder|decoder)\b", path))})


def _head_count(module: torch.nn.Module) -> int:
    for name in _COUNTS:
        count = getattr(module, name, None)
        if isinstance(count, int):
            return count
    for name in _COUNTS:
        count = getattr(module.config, name, None)
        if isinstance(count, int):
            return count
    raise Error("Heads: the number of heads is unknown", where=type(module).__name__, got="none of its attributes",
                expected=" or ".join(_COUNTS))


def _by_site(pairs: list[tuple[int, int]]) -> dict[int, list[int]]:
    sites: dict[int, list[int]] = {}
    for site, head in pairs:
        sites.setdefault(site, []).append(head)
    return sites


def _resample_hook(chosen: list[int], generator: torch.Generator | None) -> ZHook:
    def hook(z: torch.Tensor) -> torch.Tensor:
        if z.shape[0] < 2:
            raise Error("ablate: resampling needs several texts in a batch", got="1", expected="2 or more")
        # Every text gets the outputs of another: a shift by 1 to B - 1 in a random order.
        order = torch.randperm(z.shape[0], generator=generator)
        shift = int(torch.randint(1, z.shape[0], (), generator=generator))
        other = torch.empty_like(order)
        other[order] = order.roll(shift)
        z = z.clone()
        z[:, :, chosen] = z[other.to(z.device)][:, :, chosen]
        return z

    return hook


@contextmanager
def _during(items: list[Any], item: Any) -> Iterator[None]:
    """`item` is in the list until the block ends."""
    items.append(item)
    try:
        yield
    finally:
        items[:] = [other for other in items if other is not item]
