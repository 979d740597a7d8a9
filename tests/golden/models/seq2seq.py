"""The encoder-decoders: Marian and T5."""

from __future__ import annotations

from typing import Any

import transformers as hf

import folders
from cases import Case, Generate, task

GREEDY_AND_BEAMS = [
    Generate(),
    Generate(beams=4),
    Generate(beams=4, early_stopping=True),
    Generate(beams=4, length_penalty=0.6),
    Generate(beams=4, length_penalty=2.0),
    Generate(beams=4, length_penalty=2.0, early_stopping=True, max_new_tokens=6),
]
SMALL_T5 = dict(vocab_size=33, d_model=16, d_kv=5, d_ff=21, num_layers=1, num_decoder_layers=1)
SMALL_MARIAN = dict(
    vocab_size=33,
    d_model=16,
    encoder_layers=1,
    decoder_layers=1,
    encoder_ffn_dim=21,
    decoder_ffn_dim=19,
    pad_token_id=32,
    decoder_start_token_id=32,
    decoder_vocab_size=33,
)


def marian(**changes: Any) -> hf.PreTrainedConfig:
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
        eos_token_id=3,
        bos_token_id=None,
        decoder_start_token_id=60,
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=True,
    )
    return hf.MarianConfig(**settings | changes)


def t5(**changes: Any) -> hf.PreTrainedConfig:
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
        eos_token_id=36,
        decoder_start_token_id=0,
    )
    return hf.T5Config(**settings | changes)


def gated_t5(name: str, **changes: Any) -> Case:
    """T5 1.1: gated, an output layer of its own, no scaling in front of it."""
    config = t5(
        **SMALL_T5 | dict(num_layers=2), feed_forward_proj="gated-gelu", tie_word_embeddings=False, eos_token_id=9
    )
    return task(name, hf.T5ForConditionalGeneration, config, embedding=0.5, untied=True, **changes)


def marians() -> list[Case]:
    apart = dict(
        encoder_layers=2,
        decoder_attention_heads=2,
        share_encoder_decoder_embeddings=False,
        decoder_vocab_size=29,
        pad_token_id=28,
        decoder_start_token_id=28,
        eos_token_id=9,
        scale_embedding=False,
        activation_function="relu",
    )
    found = dict(forced_eos_token_id=14, bad_words_ids=[[32]])
    return [
        Case(
            "marian",
            hf.MarianMTModel,
            marian(),
            seed=7,
            embedding=0.2,
            gated=True,
            pruned=True,
            generate=GREEDY_AND_BEAMS,
        ),
        task(
            "marian_apart",
            hf.MarianMTModel,
            marian(**SMALL_MARIAN | apart),
            seed=7,
            peak=2.5,
            embedding=1.0,
            generate=GREEDY_AND_BEAMS,
        ),
        task(
            "marian_as_found",
            hf.MarianMTModel,
            marian(**SMALL_MARIAN, eos_token_id=14),
            embedding=0.25,
            generation_config=found,
            generate=GREEDY_AND_BEAMS,
            rewrite=folders.tensors(folders.marian_with_copies),
        ),
    ]


def t5s() -> list[Case]:
    version_4 = folders.config(folders.with_t5_config_of_version_4)
    return [
        Case(
            "t5",
            hf.T5ForConditionalGeneration,
            t5(),
            seed=7,
            embedding=0.2,
            gated=True,
            pruned=True,
            generate=GREEDY_AND_BEAMS,
        ),
        gated_t5("t5_gated", generate=GREEDY_AND_BEAMS),
        gated_t5("t5_gated_version_4", seed=2, rewrite=version_4),
        task(
            "t5_gated_silu",
            hf.T5ForConditionalGeneration,
            t5(**SMALL_T5, feed_forward_proj="gated-silu", eos_token_id=1),
            embedding=0.2,
        ),
        task(
            "t5_with_copies",
            hf.T5ForConditionalGeneration,
            t5(**SMALL_T5, eos_token_id=1),
            embedding=0.2,
            rewrite=folders.tensors(folders.t5_with_copies),
        ),
    ]


def cases() -> list[Case]:
    return marians() + t5s()
