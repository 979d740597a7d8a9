"""The decoders: GPT-2, GPT-NeoX, Llama, Mistral, Qwen2, Qwen3, SmolLM3."""

from __future__ import annotations

from typing import Any

import torch
import transformers as hf

import folders
from cases import Case, Generate, task

GREEDY = [Generate()]
SMALL = dict(vocab_size=33, hidden_size=16, num_hidden_layers=1, intermediate_size=21)
SMALL_NEOX = SMALL | dict(num_attention_heads=2)
SMALL_GPT2 = dict(vocab_size=33, n_embd=16, n_layer=1, n_inner=21, pad_token_id=0)


def gpt2(**changes: Any) -> hf.PreTrainedConfig:
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
    return hf.GPT2Config(**settings | changes)


def neox(**changes: Any) -> hf.PreTrainedConfig:
    settings: dict[str, Any] = dict(
        vocab_size=66,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=31,
        hidden_act="gelu",
        max_position_embeddings=24,
        layer_norm_eps=2e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 700.0, "partial_rotary_factor": 0.25},
        bos_token_id=1,
        eos_token_id=18,
        pad_token_id=0,
    )
    return hf.GPTNeoXConfig(**settings | changes)


def llama(kind: type = hf.LlamaConfig, **changes: Any) -> hf.PreTrainedConfig:
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
        rope_parameters=rope(),
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    return kind(**settings | changes)


def rope(kind: str = "default", **settings: Any) -> dict[str, Any]:
    return dict(rope_type=kind, rope_theta=5000.0, **settings)


def architectures() -> list[Case]:
    whole = dict(gated=True, pruned=True, generate=GREEDY)
    sliding = dict(use_sliding_window=True, sliding_window=4, max_window_layers=1)
    return [
        Case("gpt2", hf.GPT2LMHeadModel, gpt2(), embedding=0.25, **whole),
        Case("gpt_neox", hf.GPTNeoXForCausalLM, neox(), **whole),
        Case("llama", hf.LlamaForCausalLM, llama(eos_token_id=45), **whole),
        Case(
            "mistral",
            hf.MistralForCausalLM,
            llama(hf.MistralConfig, num_hidden_layers=2, head_dim=10, sliding_window=5),
            **whole,
        ),
        Case("qwen2", hf.Qwen2ForCausalLM, llama(hf.Qwen2Config, eos_token_id=29, **sliding), **whole),
        Case(
            "qwen3",
            hf.Qwen3ForCausalLM,
            llama(hf.Qwen3Config, num_hidden_layers=2, head_dim=12, tie_word_embeddings=True, eos_token_id=62),
            embedding=0.25,
            **whole,
        ),
        Case(
            "smollm3",
            hf.SmolLM3ForCausalLM,
            llama(hf.SmolLM3Config, num_hidden_layers=2, eos_token_id=13, no_rope_layers=[1, 0]),
            **whole,
        ),
    ]


def rotary() -> list[Case]:
    """Ways to stretch rotary positions."""
    small = SMALL | dict(head_dim=12)

    def scaled(name: str, parameters: dict[str, Any], **changes: Any) -> Case:
        return task(f"llama_rope_{name}", hf.LlamaForCausalLM, llama(**small, rope_parameters=parameters), **changes)

    llama3 = rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16
    )
    yarn = rope("yarn", factor=4.0, original_max_position_embeddings=8)
    version_4 = folders.config(folders.with_config_of_version_4)
    return [
        scaled("linear", rope("linear", factor=2.5), rewrite=folders.config(folders.with_rope_named_type)),
        scaled("llama3", llama3),
        scaled("llama3_version_4", llama3, rewrite=version_4),
        scaled("yarn", yarn | dict(beta_fast=4.0, beta_slow=1.0)),
        scaled(
            "yarn_attention_factor", yarn | dict(beta_fast=2, beta_slow=0.5, attention_factor=0.8, truncate=False)
        ),
        task(
            "llama_rope_dynamic",
            hf.LlamaForCausalLM,
            llama(**small, max_position_embeddings=9, rope_parameters=rope("dynamic", factor=2.0)),
            padded=False,  # the frequencies follow the longest sequence of a batch
        ),
    ]


def variants() -> list[Case]:
    return [
        task(
            "gpt2_scaled_by_layer",
            hf.GPT2LMHeadModel,
            gpt2(**SMALL_GPT2 | dict(n_layer=2), scale_attn_by_inverse_layer_idx=True),
        ),
        task("gpt2_unscaled", hf.GPT2LMHeadModel, gpt2(**SMALL_GPT2 | dict(n_inner=None), scale_attn_weights=False)),
        task("gpt2_relu", hf.GPT2Model, gpt2(**SMALL_GPT2, activation_function="relu")),
        task(
            "gpt_neox_sequential",
            hf.GPTNeoXForCausalLM,
            neox(**SMALL_NEOX | dict(num_hidden_layers=2), use_parallel_residual=False),
        ),
        task(
            "gpt_neox_no_attention_bias",
            hf.GPTNeoXForCausalLM,
            neox(**SMALL_NEOX, attention_bias=False, hidden_act="gelu_fast"),
        ),
        task("llama_biases", hf.LlamaForCausalLM, llama(**SMALL, attention_bias=True, mlp_bias=True)),
        task(
            "llama_tied",
            hf.LlamaForCausalLM,
            llama(**SMALL, tie_word_embeddings=True, eos_token_id=[2, 9, 13]),
            embedding=0.25,
            generate=GREEDY,
        ),
        task("llama_all_kv_heads", hf.LlamaForCausalLM, llama(**SMALL, num_key_value_heads=None, hidden_act="gelu")),
        task("llama_one_kv_head", hf.LlamaForCausalLM, llama(**SMALL, num_key_value_heads=1, hidden_act="relu")),
        task("llama_bfloat16", hf.LlamaForCausalLM, llama(**SMALL), dtype=torch.bfloat16),
        task("llama_plain", hf.LlamaModel, llama(**SMALL)),
        task("mistral_no_window", hf.MistralForCausalLM, llama(hf.MistralConfig, **SMALL, sliding_window=None)),
        task("qwen2_no_window", hf.Qwen2ForCausalLM, llama(hf.Qwen2Config, **SMALL), max_shard_size="8KB"),
        task(
            "qwen3_attention_bias",
            hf.Qwen3ForCausalLM,
            llama(hf.Qwen3Config, **SMALL, head_dim=8, attention_bias=True),
        ),
        task(
            "qwen3_layer_types",
            hf.Qwen3ForCausalLM,
            llama(
                hf.Qwen3Config,
                **SMALL | dict(num_hidden_layers=2),
                head_dim=6,
                use_sliding_window=True,
                sliding_window=3,
                layer_types=["sliding_attention", "full_attention"],
            ),
        ),
    ]


def tasks() -> list[Case]:
    labels = dict(num_labels=3)
    return [
        task("gpt2_sequence", hf.GPT2ForSequenceClassification, gpt2(**SMALL_GPT2, **labels)),
        task("gpt2_token", hf.GPT2ForTokenClassification, gpt2(**SMALL_GPT2, **labels)),
        task("gpt_neox_sequence", hf.GPTNeoXForSequenceClassification, neox(**SMALL_NEOX, **labels)),
        task("llama_sequence", hf.LlamaForSequenceClassification, llama(**SMALL, **labels)),
        task(
            "llama_regression",
            hf.LlamaForSequenceClassification,
            llama(**SMALL, num_labels=1, problem_type="regression"),
        ),
        task("llama_token", hf.LlamaForTokenClassification, llama(**SMALL, **labels)),
        task("mistral_sequence", hf.MistralForSequenceClassification, llama(hf.MistralConfig, **SMALL, **labels)),
        task("qwen2_token", hf.Qwen2ForTokenClassification, llama(hf.Qwen2Config, **SMALL, **labels)),
        task(
            "qwen3_sequence", hf.Qwen3ForSequenceClassification, llama(hf.Qwen3Config, **SMALL, head_dim=8, **labels)
        ),
    ]


def as_found() -> list[Case]:
    version_4 = folders.config(folders.with_config_of_version_4)
    sliding = dict(use_sliding_window=True, sliding_window=4, max_window_layers=1, num_hidden_layers=2)
    return [
        task(
            "gpt2_without_prefix",
            hf.GPT2LMHeadModel,
            gpt2(**SMALL_GPT2),
            rewrite=folders.tensors(folders.gpt2_without_prefix),
        ),
        task(
            "gpt_neox_version_4",
            hf.GPTNeoXForCausalLM,
            neox(
                **SMALL_NEOX,
                rope_parameters={"rope_type": "default", "rope_theta": 300.0, "partial_rotary_factor": 0.5},
            ),
            rewrite=folders.both(
                folders.tensors(folders.neox_with_buffers), folders.config(folders.with_neox_config_of_version_4)
            ),
        ),
        task(
            "llama_version_4",
            hf.LlamaForCausalLM,
            llama(**SMALL),
            rewrite=folders.both(folders.tensors(folders.llama_with_frequencies), version_4),
        ),
        task(
            "mistral_version_4",
            hf.MistralForCausalLM,
            llama(hf.MistralConfig, **SMALL, sliding_window=3),
            rewrite=version_4,
        ),
        task("qwen2_version_4", hf.Qwen2ForCausalLM, llama(hf.Qwen2Config, **SMALL | sliding), rewrite=version_4),
    ]


def cases() -> list[Case]:
    return architectures() + rotary() + variants() + tasks() + as_found()
