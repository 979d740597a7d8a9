"""Attention heads of transformers: what they do, how much they matter, what could replace them."""

from headwise._core import set_threads, threads
from headwise.attention import HeadStatistics, attention
from headwise.errors import Error
from headwise.heads import HeadNames

__version__ = "0.1.0"
__all__ = ["Error", "HeadNames", "HeadStatistics", "attention", "set_threads", "threads"]
