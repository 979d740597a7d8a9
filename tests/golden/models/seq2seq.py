"""The encoder-decoders: Marian and T5."""
from __future__ import annotations

from typing import Any

from transformers import MarianConfig, MarianMTModel, T5Config, T5ForConditionalGeneration

from cases import Case, Generate

BEAMS = [
    Generate(),
    Generate(beams=4),
    Generate(beams=4, early_stopping=True),
    Generate(beams=4, length_penalty=0.6),
    Generate(beams=4, length_penalty=2.0),
    Generate(beams=4, length_penalty=2.0, early_stopping=True, max_new_tokens=6),
]


def marian(**changes: Any) -> MarianConfig:
    settings: dict[str, Any] = dict(
        vocab_size=61,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=37,
        decoder_ffn_dim=45,
        activation_function="swish",
        max_position_embeddings=32,
        scale_embedding=True,
        static_position_embeddings=True,
        pad_token_id=60,
        eos_token_id=0,
        bos_token_id=None,
        decoder_start_token_id=60,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
    )
    return MarianConfig(**settings | changes)


def t5(**changes: Any) -> T5Config:
    settings: dict[str, Any] = dict(
        vocab_size=65,
        d_model=32,
        d_kv=6,
        d_ff=45,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=10,
        feed_forward_proj="relu",
        layer_norm_epsilon=2e-6,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
    )
    return T5Config(**settings | changes)


def cases() -> list[Case]:
    return [
        Case("marian", MarianMTModel, marian(eos_token_id=3), seed=7, embedding=0.2, gated=True, pruned=True, generate=BEAMS),
        Case("t5", T5ForConditionalGeneration, t5(eos_token_id=36), seed=7, embedding=0.2, gated=True, pruned=True, generate=BEAMS),
    ]
