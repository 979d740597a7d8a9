"""Attention weights of a text, and how they look in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping

import numpy as np

from headwise.attention import Floats


class AttentionMap(Mapping[str, Floats]):
    """Weights [rows, keys] by head ("L3.H1"). In a notebook they show themselves as pictures."""

    def __init__(self, weights: dict[str, Floats], source: list[str], target: list[str] | None) -> None:
        self._weights = weights
        self.source = source  # tokens
        self.target = target  # tokens that the decoder reads; None: the model has no decoder beside an encoder

    def __getitem__(self, head: str) -> Floats:
        return self._weights[head]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def labels(self, head: str) -> tuple[list[str], list[str]]:
        """The tokens of the rows and of the keys of a head."""
        if self.target is None or head.startswith("enc."):
            return self.source, self.source
        return self.target, self.source if head.startswith("cross.") else self.target

    def __repr__(self) -> str:
        lines = []
        for head, weights in self.items():
            rows, keys = self.labels(head)
            lines.append(head)
            for token, row in zip(rows, weights, strict=True):
                best = int(row.argmax())
                lines.append(f"  {token:16} attends most to {keys[best]:16} {row[best]:.2f}")
            if len(lines) > 60:
                lines.append(f"… {len(self)} heads in all")
                break
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        shown = list(self)[:24]
        pictures = "".join(self._picture(head) for head in shown)
        more = f"<p>{len(shown)} of {len(self)} heads; ask for one: attend(text, heads='{next(iter(self))}')</p>"
        return f'<div style="display: flex; flex-wrap: wrap; gap: 12px">{pictures}</div>' + (
            more if len(shown) < len(self) else "")

    def _picture(self, head: str) -> str:
        rows, keys = self.labels(head)
        weights = self[head]
        cell = 14 if len(self) < 3 else 6
        named = len(self) < 3
        left = 90 if named else 4
        top = 90 if named else 16
        parts = []
        for i in range(weights.shape[0]):
            for j in range(weights.shape[1]):
                if weights[i, j] < 0.004:
                    continue
                title = html.escape(f"{rows[i]} → {keys[j]} {weights[i, j]:.2f}")
                parts.append(f'<rect x="{left + j * cell}" y="{top + i * cell}" width="{cell}" height="{cell}" fill="#1f5fa8" '
                             f'fill-opacity="{np.clip(weights[i, j], 0, 1):.3f}"><title>{title}</title></rect>')
        if named:
            for i, token in enumerate(rows):
                parts.append(f'<text x="{left - 4}" y="{top + i * cell + 11}" text-anchor="end">{html.escape(token)}</text>')
            for j, token in enumerate(keys):
                x, y = left + j * cell + 11, top - 4
                parts.append(f'<text x="{x}" y="{y}" transform="rotate(-90 {x} {y})">{html.escape(token)}</text>')
        width, height = left + weights.shape[1] * cell + 4, top + weights.shape[0] * cell + 4
        frame = (f'<rect x="{left}" y="{top}" width="{weights.shape[1] * cell}" height="{weights.shape[0] * cell}" '
                 'fill="none" stroke="#999"/>')
        return (f'<figure style="margin: 0"><figcaption>{head}</figcaption><svg width="{width}" height="{height}" '
                f'fill="currentColor" font-size="10" font-family="sans-serif">{"".join(parts)}{frame}</svg></figure>')
