"""The exception for bad input."""

from __future__ import annotations


class Error(ValueError):
    """Bad input: what is wrong, where, the value, the expected value, and what to do."""

    def __init__(
        self, what: str, where: str = "", got: str = "", expected: str = "", hint: str = ""
    ) -> None:
        self.what = what
        self.where = where
        self.got = got
        self.expected = expected
        self.hint = hint
        lines = {"where": where, "got": got, "expected": expected, "hint": hint}
        super().__init__("\n  ".join([what, *(f"{name}: {text}" for name, text in lines.items() if text)]))

    def __reduce__(self) -> tuple[type[Error], tuple[str, ...]]:
        return Error, (self.what, self.where, self.got, self.expected, self.hint)
