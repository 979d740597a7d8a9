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
from headwise.table import Table, table

if TYPE_CHECKING:
    from headwise.model import PrunedModel

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


class _HeadResult(_Result):
    """A result with a row for each head. polars and DuckDB read it as a table: `polars.DataFrame(evidence)`."""

    def _table(self) -> Table:
        raise NotImplementedError

    @property
    def heads(self) -> Any:
        """The table of heads: a pandas DataFrame if pandas is installed, else a dict of NumPy columns."""
        return self._table().frame()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The table of heads in the C stream interface of Arrow."""
        return self._table().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.to_dict()['heads'])} heads)"


class Evidence(_HeadResult):
    """Measured numbers about every head, with sample size and interval.

    The columns of `heads` are those of `headwise observe --csv`: "entropy", "relation.det.to_head", "ablation_zero_low", …
    """

    _core_type = _core.Evidence

    def _table(self) -> Table:
        rows = list(csv.reader(io.StringIO(self._core.to_csv())))
        columns: dict[str, Any] = {"head": [row[0] for row in rows[1:]]}
        for i, name in enumerate(rows[0][1:], start=1):
            columns[name] = np.array([float(row[i]) if row[i] else np.nan for row in rows[1:]])
        return table(columns)

    def judge(self, *, tolerance: float | None = None, thresholds: Mapping[str, float] | None = None) -> Verdict:
        """Roles, importance and redundancy of every head."""
        return Verdict(_core.judge(self._core, dict(thresholds or {}), tolerance))


class Verdict(_HeadResult):
    """What the evidence implies about every head: its standing, its roles and the heads that are redundant with it."""

    _core_type = _core.Verdict

    def _table(self) -> Table:
        rows = self.to_dict()["heads"]
        columns: dict[str, Any] = {
            "head": [row["head"] for row in rows],
            "standing": [row.get("standing") for row in rows],
            "roles": [", ".join(role["role"] for role in row.get("roles", [])) for row in rows],
            "redundant_with": [", ".join(row.get("redundant_with", [])) for row in rows],
        }
        return table(columns)

    def explain(self, head: str) -> str:
        """One sentence about a head, in plain words."""
        return str(self._core.explain(head))


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

    def __reduce__(self) -> Any:
        raise TypeError("a Study cannot be pickled: pickle its evidence, verdict and plan, and save() its pruned model")

    @property
    def pruned(self) -> PrunedModel | None:
        """The smaller model. None: the data do not support the plan, and no share of heads was asked for."""
        from headwise.model import PrunedModel

        return PrunedModel(self._core.pruned) if self._core.has_pruned else None

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
