"""A case: one golden folder's model, and the sequences it is run on."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from record import Batch

if TYPE_CHECKING:
    from sentence import Sentence

SPECIAL_IDS = 4  # ids below are never drawn: padding, begin, end, unknown
LENGTHS = (7, 11, 4)
DECODER_LENGTHS = (5, 3, 8)


@dataclass(frozen=True)
class Generate:
    """One way to generate from every sequence of the case's batch."""

    beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool = False
    max_new_tokens: int = 10


@dataclass
class Case:
    name: str
    model: type[PreTrainedModel]
    config: PreTrainedConfig
    seed: int = 1
    lengths: tuple[int, ...] = LENGTHS
    peak: float = 1.8
    embedding: float = 0.8
    untied: bool = False  # an output layer of its own, in a class that ties it to the embedding
    gated: bool = False
    pruned: bool = False
    outputs_only: bool = False
    padded: bool = True  # whether a padded batch gives the same
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    generation_config: dict[str, Any] = field(default_factory=dict)
    generate: list[Generate] = field(default_factory=list)
    sentence: Sentence | None = None
    rewrite: Callable[[pathlib.Path], None] | None = (
        None  # the folder, into another form that loads as the same model
    )

    def batch(self, model: PreTrainedModel) -> Batch:
        torch.manual_seed(self.seed + 1000)
        config = model.config

        def draw(lengths: tuple[int, ...], vocabulary: int) -> list[torch.Tensor]:
            return [torch.randint(SPECIAL_IDS, vocabulary, (n,)) for n in lengths]

        batch = Batch(draw(self.lengths, config.vocab_size))
        if getattr(config, "type_vocab_size", 0) > 1:
            batch.type_ids = [(torch.arange(n) >= n // 2).long() for n in self.lengths]
        if config.is_encoder_decoder:
            vocabulary = getattr(config, "decoder_vocab_size", config.vocab_size)
            batch.decoder_ids = draw(DECODER_LENGTHS[: len(self.lengths)], vocabulary)
            for ids in batch.decoder_ids:
                ids[0] = config.decoder_start_token_id
        return batch


def task(name: str, model: type[PreTrainedModel], config: PreTrainedConfig, **changes: Any) -> Case:
    """A case that shows one detail: one small model, its last outputs only."""
    return Case(name, model, config, outputs_only=True, **changes)
