"""Tables of heads in pandas, polars, DuckDB and pyarrow. What is not installed is skipped."""

import numpy as np
import pytest

import headwise as hw
from headwise.table import table

TABLE = table({"head": ["L0.H0", "L0.H1", "Ä"], "entropy": [1.5, np.nan, -2], "standing": ["essential", None, "harmful"]})
ROWS = [("L0.H0", 1.5, "essential"), ("L0.H1", None, None), ("Ä", -2.0, "harmful")]


class Stream:
    """A table that is no dictionary, as Evidence and Verdict are none: polars reads dictionaries in its own way."""

    def __init__(self, of):
        self.__arrow_c_stream__ = of.__arrow_c_stream__


def wide(rows=1000):
    return hw.Table(x=np.arange(rows, dtype=np.float64), name=np.array([f"row {i}" for i in range(rows)]))


def test_pandas():
    pytest.importorskip("pandas")
    frame = TABLE.frame()
    assert list(frame.index) == ["L0.H0", "L0.H1", "Ä"]
    assert frame.loc["Ä", "entropy"] == -2 and np.isnan(frame.loc["L0.H1", "entropy"])


def test_polars():
    pl = pytest.importorskip("polars")
    assert pl.DataFrame(Stream(TABLE)).rows() == ROWS
    assert pl.DataFrame(Stream(wide()))["name"].to_list() == list(wide()["name"])
    assert pl.DataFrame(Stream(wide(0))).shape == (0, 2)
    assert pl.DataFrame(Stream(TABLE)).schema == {"head": pl.String, "entropy": pl.Float64, "standing": pl.String}


def test_duckdb():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.register("heads", Stream(TABLE))
    assert connection.sql("SELECT * FROM heads").fetchall() == ROWS


def test_pyarrow():
    pa = pytest.importorskip("pyarrow")
    found = pa.table(Stream(TABLE))
    found.validate(full=True)
    assert [tuple(row.values()) for row in found.to_pylist()] == ROWS
    assert found["standing"].null_count == 1
    pa.table(Stream(wide())).validate(full=True)


def test_a_stream_that_nobody_reads():
    for _ in range(100):
        wide().__arrow_c_stream__()
