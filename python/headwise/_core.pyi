"""The C++ part of headwise. Use the functions of headwise instead."""

from typing import Annotated

import numpy
from numpy.typing import NDArray


def set_threads(count: int) -> None:
    """Sets how many threads headwise uses; at first all cores."""

def threads() -> int:
    """How many threads headwise uses."""

class Attention:
    """One attention: its arrays and parameters. See headwise.attention."""

    def __init__(self, q: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], v: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], q_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], *, k_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, q_lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, k_lengths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, kv_head: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, causal: bool = False, left: int = -1, right: int = -1, scale: float | None = None, softcap: float = 0.0, alibi_slopes: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, bias: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), device='cpu', writable=False)] | None = None, sinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, dropout: float = 0.0, head_dropout: float = 0.0, seed: int = 0, gates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)] | None = None, gate_scope: str = 'head') -> None: ...

    def forward(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')], lse: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')] | None = None, observe: bool = False, cross: bool = False) -> object:
        """
        Writes the outputs and the log-sum-exp of the scores. Returns the statistics of every head, as pairs of sums and numbers of rows, if asked to observe.
        """

    def backward(self, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], lse: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], dout: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], *, dq: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')] | None = None, dk: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')] | None = None, dv: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu')] | None = None, dgates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu')] | None = None, dbias: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), device='cpu')] | None = None, dsinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> None:
        """Writes the gradients."""
