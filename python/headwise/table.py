"""A table with one row for each head, for pandas, polars, DuckDB or nothing but NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwise import _core


class Table(dict[str, NDArray[Any]]):
    """NumPy columns by name, which speaks the PyCapsule interface of Arrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows in the C stream interface of Arrow. NaN is null there: a number that was not measured."""
        return _core.arrow_stream({name: _arrow_column(column) for name, column in self.items()})

    def frame(self) -> Any:
        """A pandas DataFrame by head if pandas is installed, else this."""
        try:
            import pandas as pd
        except ImportError:
            return self
        return pd.DataFrame(dict(self)).set_index("head")


def table(columns: dict[str, Any]) -> Table:
    """A table of lists and arrays: numbers, or texts and None."""
    return Table({name: np.asarray(column) for name, column in columns.items()})


def _arrow_column(column: NDArray[Any]) -> Any:
    return column.tolist() if column.dtype.kind in "OU" else np.ascontiguousarray(column, np.float64)
