"""The encoders: BERT, RoBERTa, XLM-R, DistilBERT, ELECTRA, MPNet."""
from __future__ import annotations

from typing import Any

from transformers import BertConfig, BertForMaskedLM

from cases import Case


def bert(**changes: Any) -> BertConfig:
    settings: dict[str, Any] = dict(
        vocab_size=70,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=37,
        hidden_act="gelu",
        max_position_embeddings=19,
        type_vocab_size=2,
        layer_norm_eps=3e-6,
        pad_token_id=0,
    )
    return BertConfig(**settings | changes)


def cases() -> list[Case]:
    return [
        Case("bert", BertForMaskedLM, bert(), gated=True, pruned=True),
    ]
