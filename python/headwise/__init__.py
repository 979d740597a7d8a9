"""Attention heads of transformers: what they do, how much they matter, what could replace them."""

from headwise._core import read_lines, set_threads, threads
from headwise.attend import AttentionMap
from headwise.attention import AttentionOptions, HeadStatistics, attention, attention_maps
from headwise.errors import Error
from headwise.heads import HeadNames
from headwise.model import ActivationCache, Model, PrunedModel, load
from headwise.results import Evidence, Plan, Study, Verdict
from headwise.table import Table

__version__ = "0.1.0"
__all__ = [
    "ActivationCache",
    "AttentionMap",
    "AttentionOptions",
    "Error",
    "Evidence",
    "HeadNames",
    "HeadStatistics",
    "Model",
    "Plan",
    "PrunedModel",
    "Study",
    "Table",
    "Verdict",
    "attention",
    "attention_maps",
    "load",
    "read_lines",
    "set_threads",
    "threads",
]
