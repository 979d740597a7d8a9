"""One parser for all ways to name heads."""

import numpy as np
import pytest

from headwise import Error, HeadNames

NAMES = HeadNames([("L0", 2), ("L1", 3), ("L2", 3)])


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        ("L1.H2", [(1, 2)]),
        ("L0", [(0, 0), (0, 1)]),
        ("L1.H2, L0.H1,L1.H2", [(1, 2), (0, 1)]),
        ((1, 2), [(1, 2)]),
        ([(1, 2), "L0.H0"], [(1, 2), (0, 0)]),
        ([[1, 2], [0, 0]], [(1, 2), (0, 0)]),
        ({1: [0, 2], "L0": [1]}, [(1, 0), (1, 2), (0, 1)]),
        (np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], bool), [(0, 1), (1, 2)]),
        ([], []),
    ],
)
def test_finds(heads, expected):
    assert NAMES.find(heads) == expected


def test_all():
    assert [f"L{layer}.H{head}" for layer, head in NAMES.find("all")] == NAMES.names()


@pytest.mark.parametrize(
    ("heads", "what"),
    [
        ("L3.H0", "no such layer"),
        ("L0.H2", "no such head"),
        ((0, 2), "no such head"),
        ("L1H2", "not the name"),
        (3, "cannot read"),
        (np.ones((2, 3), bool), "shape"),
        (np.ones((3, 3), bool), "no such head"),
    ],
)
def test_refuses(heads, what):
    with pytest.raises(Error, match=what):
        NAMES.find(heads)


def test_misspelt_names_get_a_suggestion():
    with pytest.raises(Error) as caught:
        NAMES.find("L1H2")
    assert caught.value.hint == "Did you mean L1.H2?"


def test_sides():
    names = HeadNames([("enc.L0", 2), ("dec.L0", 2), ("cross.L0", 2)])
    assert names.find("cross.L0.H1, enc.L0") == [(2, 1), (0, 0), (0, 1)]
