"""The decoders: GPT-2, GPT-NeoX, Llama, Mistral, Qwen2, Qwen3, SmolLM3."""
from __future__ import annotations

from typing import Any

from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from cases import Case, Generate


def gpt2(**changes: Any) -> GPT2Config:
    settings: dict[str, Any] = dict(
        vocab_size=66,
        n_positions=24,
        n_embd=32,
        n_layer=3,
        n_head=4,
        n_inner=41,
        activation_function="gelu_new",
        layer_norm_epsilon=2e-5,
        bos_token_id=1,
        eos_token_id=18,
    )
    return GPT2Config(**settings | changes)


def llama(**changes: Any) -> LlamaConfig:
    settings: dict[str, Any] = dict(
        vocab_size=66,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=43,
        hidden_act="silu",
        max_position_embeddings=32,
        rms_norm_eps=2e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return LlamaConfig(**settings | changes)


GREEDY = [Generate()]


def cases() -> list[Case]:
    return [
        Case("gpt2", GPT2LMHeadModel, gpt2(), embedding=0.25, gated=True, pruned=True, generate=GREEDY),
        Case("llama", LlamaForCausalLM, llama(eos_token_id=45), gated=True, pruned=True, generate=GREEDY),
    ]
