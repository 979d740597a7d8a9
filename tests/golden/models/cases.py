"""A case: one golden folder's model, and the sequences it is run on."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from record import Batch

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
    gated: bool = False
    pruned: bool = False
    outputs_only: bool = False
    dtype: torch.dtype = torch.float32
    max_shard_size: str = "1GB"
    generate: list[Generate] = field(default_factory=list)

    def batch(self, model: PreTrainedModel) -> Batch:
        torch.manual_seed(self.seed + 1000)
        config = model.config

        def draw(lengths: tuple[int, ...]) -> list[torch.Tensor]:
            return [torch.randint(SPECIAL_IDS, config.vocab_size, (n,)) for n in lengths]

        batch = Batch(draw(self.lengths))
        if getattr(config, "type_vocab_size", 0) > 1:
            batch.type_ids = [(torch.arange(n) >= n // 2).long() for n in self.lengths]
        if config.is_encoder_decoder:
            batch.decoder_ids = draw(DECODER_LENGTHS[: len(self.lengths)])
            for ids in batch.decoder_ids:
                ids[0] = config.decoder_start_token_id
        return batch
