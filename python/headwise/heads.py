"""Names of heads: one parser for every way to write them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headwise.errors import Error

_NAME = re.compile(r"(?:(enc|dec|cross)\.)?L(\d+)(?:\.H(\d+))?")

#: What a caller may pass for heads: "L3.H1", "L3", "all", "L3.H1, L5", (3, 1), [(3, 1), "L5"], {3: [1, 4]} or a boolean
#: array [layers, heads].
HeadsLike = Any


class HeadNames:
    """The attentions of a model in their order ("L0", "enc.L0", …) and how many heads each has."""

    def __init__(self, attentions: Sequence[tuple[str, int]]) -> None:
        self.attentions = list(attentions)
        self._index = {name: i for i, (name, _) in enumerate(self.attentions)}

    def names(self) -> list[str]:
        """The names of all heads, in order."""
        return [f"{name}.H{h}" for name, count in self.attentions for h in range(count)]

    def find(self, heads: HeadsLike) -> list[tuple[int, int]]:
        """Pairs (index of the attention, head), each once, in the order given."""
        return list(dict.fromkeys(self._pairs(heads)))

    def _pairs(self, heads: HeadsLike) -> Iterable[tuple[int, int]]:
        if isinstance(heads, str):
            for part in heads.split(","):
                yield from self._named(part.strip())
        elif isinstance(heads, Mapping):
            for layer, members in heads.items():
                for head in members:
                    yield self._pair(layer, head)
        elif _is_pair(heads):
            yield self._pair(*heads)
        elif _is_boolean(heads):
            yield from self._marked(np.asarray(heads))
        elif isinstance(heads, Iterable):
            for one in heads:
                yield from self._pairs(tuple(one) if isinstance(one, list) else one)
        else:
            raise Error("heads: cannot read this", got=repr(heads), expected='"L3.H1", (3, 1), {3: [1]} or an array')

    def _named(self, text: str) -> Iterable[tuple[int, int]]:
        if text == "all":
            for i, (_, count) in enumerate(self.attentions):
                yield from ((i, h) for h in range(count))
            return
        match = _NAME.fullmatch(text)
        if match is None:
            close = difflib.get_close_matches(text, self.names(), 1)
            raise Error("heads: not the name of a head", got=repr(text), expected='"L3.H1", "L3" or "all"',
                        hint=f"Did you mean {close[0]}?" if close else "")
        side, layer, head = match.groups()
        site = self._site(f"{side}.L{layer}" if side else f"L{layer}")
        if head is not None:
            yield self._checked(site, int(head))
        else:
            yield from ((site, h) for h in range(self.attentions[site][1]))

    def _site(self, name: str) -> int:
        if name not in self._index:
            known = [known for known, _ in self.attentions]
            raise Error("heads: the model has no such layer", got=name,
                        expected=f"{known[0]} to {known[-1]}" if known else "a model with attention")
        return self._index[name]

    def _pair(self, layer: int | str, head: int) -> tuple[int, int]:
        site = self._site(layer if isinstance(layer, str) else f"L{int(layer)}")
        return self._checked(site, int(head))

    def _checked(self, site: int, head: int) -> tuple[int, int]:
        name, count = self.attentions[site]
        if not 0 <= head < count:
            raise Error("heads: the layer has no such head", got=f"{name}.H{head}",
                        expected=f"{name}.H0 to {name}.H{count - 1}")
        return site, head

    def _marked(self, marks: np.ndarray) -> Iterable[tuple[int, int]]:
        most = max((count for _, count in self.attentions), default=0)
        if marks.shape != (len(self.attentions), most):
            raise Error("heads: the shape of the boolean array does not fit", got=str(list(marks.shape)),
                        expected=str([len(self.attentions), most]))
        for site, head in zip(*np.nonzero(marks), strict=True):
            yield self._checked(int(site), int(head))


def _is_pair(heads: HeadsLike) -> bool:
    if not isinstance(heads, tuple) or len(heads) != 2:
        return False
    layer, head = heads
    return isinstance(head, (int, np.integer)) and isinstance(layer, (int, np.integer, str)) and not isinstance(head, bool)


def _is_boolean(heads: HeadsLike) -> bool:
    return getattr(heads, "ndim", 0) == 2 and "bool" in str(getattr(heads, "dtype", ""))
