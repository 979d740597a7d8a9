"""The C++ part of headwise. Use the functions of headwise instead."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


def set_threads(count: int) -> None:
    """Sets how many threads headwise uses; at first all cores."""

def threads() -> int:
    """How many threads headwise uses."""

def arrow_stream(columns: dict[str, object]) -> object:
    """
    A PyCapsule of an ArrowArrayStream with columns of numbers, in which NaN is null, and of texts or None.
    """

class Attention:
    """One attention: its arrays and parameters. See headwise.attention."""

    def __init__(self, q: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], v: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], q_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], *, k_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, q_lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, k_lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, kv_head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, causal: bool = False, left: int = -1, right: int = -1, scale: float | None = None, softcap: float = 0.0, alibi_slopes: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, bias: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), device='cpu', writable=False)] | None = None, sinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, dropout: float = 0.0, head_dropout: float = 0.0, seed: int = 0, gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None = None, gate_scope: str = 'head') -> None: ...

    def forward(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')], lse: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')] | None = None, observe: bool = False, cross: bool = False) -> object:
        """
        Writes the outputs and the log-sum-exp of the scores. Returns the statistics of every head, as pairs of sums and numbers of rows, if asked to observe.
        """

    def maps(self) -> object:
        """
        The weights of every row, for each head, on the keys of its sequence, in one list.
        """

    def backward(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], lse: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], dout: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], *, dq: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')] | None = None, dk: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')] | None = None, dv: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')] | None = None, dgates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')] | None = None, dbias: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), device='cpu')] | None = None, dsinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> None:
        """Writes the gradients."""

class Model:
    """A model from a folder. See headwise.Model."""

    @property
    def name(self) -> str: ...

    @property
    def folder(self) -> str: ...

    @property
    def has_tokenizer(self) -> bool: ...

    @property
    def has_output(self) -> bool: ...

    @property
    def is_encoder(self) -> bool: ...

    @property
    def is_causal_lm(self) -> bool: ...

    @property
    def is_post_norm(self) -> bool: ...

    @property
    def max_positions(self) -> int: ...

    @property
    def text_ends(self) -> tuple[int | None, int | None]:
        """The tokens that begin and end texts of the tokenizer: <bos> and <eos>."""

    def hash(self) -> str:
        """SHA-256 of the files with weights."""

    def attentions(self) -> object:
        """
        Of each attention its name, its heads, and whether queries and keys are rotated.
        """

    def save(self, folder: str) -> None: ...

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """The token ids of a text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, without special tokens."""

    def tokens(self, ids: Sequence[int]) -> list[str]: ...

    def forward(self, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None, record: Sequence[str]) -> object:
        """The last hidden states, and a dictionary of what was asked for."""

    def output(self, hidden: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> object:
        """
        The output layer on the rows that it reads, and the numbers of these rows.
        """

    def generate(self, texts: Sequence[Sequence[int]], gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None, *, max_new_tokens: int | None, beams: int | None, sample: bool | None, temperature: float | None, top_k: int | None, top_p: float | None, seed: int) -> list[list[int]]:
        """The new token ids of each text."""

class PrunedModel(Model):
    @property
    def report(self) -> str: ...

def load(folder_or_id: str, allow_unexpected: bool = False, allow_nonfinite: bool = False) -> Model: ...

class Evidence:
    def to_json(self) -> str: ...

    def to_csv(self) -> str: ...

    @staticmethod
    def from_json(text: str, where: str) -> Evidence: ...

class Verdict:
    def to_json(self) -> str: ...

    def explain(self, head: str) -> str: ...

    @staticmethod
    def from_json(text: str, where: str) -> Verdict: ...

class Plan:
    @property
    def drop(self) -> list[str]: ...

    def to_json(self) -> str: ...

    @staticmethod
    def from_json(text: str, where: str) -> Plan: ...

class Study:
    @property
    def evidence(self) -> Evidence: ...

    @property
    def verdict(self) -> Verdict: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def summary(self) -> str: ...

    @property
    def has_pruned(self) -> bool: ...

    @property
    def pruned(self) -> PrunedModel: ...

def observe(model: Model, texts: Sequence[str], files: Mapping[str, str], measures: Sequence[str], loss: str, probes: bool, seed: int, truncate: bool, progress: object | None) -> Evidence: ...

def judge(evidence: Evidence, thresholds: Mapping[str, float], tolerance: float | None) -> Verdict: ...

def plan(model: Model, verdict: Verdict, *, keep: float | None, heads: int | None, speedup: float | None, drop: str, order: str, at_least: int, uniform: bool, keep_roles: Sequence[str], seed: int, progress: object | None) -> Plan: ...

def prune(model: Model, plan: Plan, *, form: str, compensate: str, texts: Sequence[str], recover: str | None, epochs: int, rounds: int, loss: str, seed: int, progress: object | None) -> PrunedModel: ...

def study(model: Model, texts: Sequence[str], *, files: Mapping[str, str], loss: str, keep: float | None, passes: float | None, seconds: float | None, thorough: bool, resume: bool, probes: bool, form: str, order: str, seed: int, out: str, progress: object | None) -> Study: ...

def page(texts: Mapping[str, str]) -> str:
    """The page of reports from the JSON of a study's files."""

def read_lines(file: str) -> list[str]:
    """The lines of a text file, which may be gzip."""
