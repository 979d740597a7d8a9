"""What the pipeline found: evidence, verdict, plan and study, as objects that go to JSON files and back."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from headwise import _core

if TYPE_CHECKING:
    from headwise.model import Model

_R = TypeVar("_R", bound="_Result")


class _Result:
    """Something with a JSON text, as the program writes it."""

    _core_type: Any

    def __init__(self, core: Any) -> None:
        self._core = core

    def to_json(self) -> str:
        """The text of the file, the same as the program writes."""
        return str(self._core.to_json())

    def to_dict(self) -> dict[str, Any]:
        """The parsed text of the file."""
        parsed: dict[str, Any] = json.loads(self.to_json())
        return parsed

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes the file, whole or not at all."""
        _write(os.fspath(file), self.to_json())

    @classmethod
    def load(cls: type[_R], file: str | os.PathLike[str]) -> _R:
        """Reads a file that headwise wrote, from Python, C++ or the command line."""
        with open(file, "rb") as stream:
            text = stream.read().decode("utf-8")
        return cls(cls._core_type.from_json(text, os.fspath(file)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (type(self), self.to_json())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.to_json() == other.to_json()  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]


def _revive(cls: Any, text: str) -> Any:
    return cls(cls._core_type.from_json(text, cls.__name__))


class Evidence(_Result):
    """Measured numbers about every head, with sample size and interval."""

    _core_type = _core.Evidence

    @property
    def heads(self) -> Any:
        """A table with one row for each head: a pandas DataFrame if pandas is installed, else a dict of NumPy columns.

        The columns are those of `headwise observe --csv`: "entropy", "relation.det.to_head", "ablation_zero_low", …
        """
        rows = list(csv.reader(io.StringIO(self._core.to_csv())))
        columns: dict[str, Any] = {"head": [row[0] for row in rows[1:]]}
        for i, name in enumerate(rows[0][1:], start=1):
            columns[name] = np.array([float(row[i]) if row[i] else np.nan for row in rows[1:]])
        return _table(columns)

    def judge(self, *, tolerance: float | None = None, thresholds: Mapping[str, float] | None = None) -> Verdict:
        """Roles, importance and redundancy of every head."""
        return Verdict(_core.judge(self._core, dict(thresholds or {}), tolerance))

    def __repr__(self) -> str:
        return f"Evidence({len(self.to_dict()['heads'])} heads)"


class Verdict(_Result):
    """What the evidence implies: roles, importance class, redundant heads."""

    _core_type = _core.Verdict

    @property
    def heads(self) -> Any:
        """A table with one row for each head: its standing, its roles and what can stand in for it."""
        rows = self.to_dict()["heads"]
        columns: dict[str, Any] = {
            "head": [row["head"] for row in rows],
            "standing": [row.get("standing") for row in rows],
            "roles": [", ".join(role["role"] for role in row.get("roles", [])) for row in rows],
            "redundant_with": [", ".join(row.get("redundant_with", [])) for row in rows],
        }
        return _table(columns)

    def explain(self, head: str) -> str:
        """One sentence about a head, in plain words."""
        return str(self._core.explain(head))

    def __repr__(self) -> str:
        return f"Verdict({len(self.to_dict()['heads'])} heads)"


class Plan(_Result):
    """Which heads to remove for a budget."""

    _core_type = _core.Plan

    @property
    def drop(self) -> list[str]:
        """The heads to remove."""
        return list(self._core.drop)

    def __repr__(self) -> str:
        return f"Plan(drop={self.drop})"


class Study:
    """The whole pipeline on one model: evidence, verdict, plan, and the pruned model if one was made.

    In a notebook it shows itself as the page of reports, without network.
    """

    def __init__(self, core: Any) -> None:
        self._core = core
        self.evidence = Evidence(core.evidence)
        self.verdict = Verdict(core.verdict)
        self.plan = Plan(core.plan)
        self.summary: dict[str, Any] = json.loads(core.summary)

    @property
    def pruned(self) -> Model | None:
        """The smaller model. None: the data do not support the plan, and no share of heads was asked for."""
        from headwise.model import Model

        return Model(self._core.pruned) if self._core.has_pruned else None

    def page(self) -> str:
        """The page of reports, as one HTML document without network."""
        texts = {
            "evidence": self.evidence.to_json(), "verdict": self.verdict.to_json(), "plan": self.plan.to_json(),
            "summary": self._core.summary,
        }
        return str(_core.page(texts))

    def save_page(self, file: str | os.PathLike[str]) -> None:
        """Writes the page of reports."""
        _write(os.fspath(file), self.page())

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.page())}" sandbox="allow-scripts" '
                'style="width: 100%; height: 800px; border: 0"></iframe>')

    def __repr__(self) -> str:
        return f"Study({len(self.plan.drop)} heads to remove)"


def _table(columns: dict[str, Any]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return {name: np.asarray(values) for name, values in columns.items()}
    return pd.DataFrame(columns).set_index("head")


def _write(file: str, text: str) -> None:
    folder = os.path.dirname(file) or "."
    os.makedirs(folder, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=folder, prefix=os.path.basename(file) + ".part-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(aside, file)
    except BaseException:
        os.unlink(aside)
        raise
