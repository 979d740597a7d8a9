"""Small random transformers models, one for each way that attention is called."""

from __future__ import annotations

from typing import Any

import torch
import transformers as tf

COMMON = dict(hidden_size=32, num_attention_heads=4, num_hidden_layers=2, intermediate_size=48, vocab_size=97)
GROUPED = dict(COMMON, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0)

CONFIGS: dict[str, Any] = {
    "bert": lambda: tf.BertConfig(**COMMON, max_position_embeddings=64),
    "gpt2": lambda: tf.GPT2Config(n_embd=32, n_head=4, n_layer=2, n_positions=64, vocab_size=97),
    "llama": lambda: tf.LlamaConfig(**GROUPED),
    "mistral": lambda: tf.MistralConfig(**GROUPED, sliding_window=5),
    "opt": lambda: tf.OPTConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=2, ffn_dim=48, vocab_size=97,
                                max_position_embeddings=64, word_embed_proj_dim=32),
    "qwen3": lambda: tf.Qwen3Config(**GROUPED, head_dim=8),
    "gemma2": lambda: tf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=4, attn_logit_softcapping=5.0,
                                      query_pre_attn_scalar=8),
    "modernbert": lambda: tf.ModernBertConfig(**dict(COMMON, num_hidden_layers=4), max_position_embeddings=64,
                                              local_attention=6, pad_token_id=0),
    "t5": lambda: tf.T5Config(d_model=32, d_kv=8, num_heads=4, num_layers=2, d_ff=48, vocab_size=97,
                              decoder_start_token_id=0),
    "whisper": lambda: tf.WhisperConfig(
        d_model=32, encoder_attention_heads=4, decoder_attention_heads=4, encoder_layers=2, decoder_layers=2,
        encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=97, max_source_positions=20, max_target_positions=32,
        num_mel_bins=8, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
    "vit": lambda: tf.ViTConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=2, intermediate_size=48,
                                image_size=16, patch_size=4),
    "gpt_oss": lambda: tf.GptOssConfig(**GROUPED, head_dim=8, num_local_experts=2, num_experts_per_tok=1,
                                       sliding_window=5),
}

CAUSAL = ["gpt2", "llama", "mistral", "opt", "qwen3", "gemma2", "gpt_oss"]
ENCODERS = ["bert", "modernbert"]
CLASSES = {"t5": tf.T5ForConditionalGeneration, "whisper": tf.WhisperForConditionalGeneration, "vit": tf.ViTModel,
           "bert": tf.BertForMaskedLM, "modernbert": tf.ModernBertForMaskedLM}


def make(family: str, implementation: str) -> torch.nn.Module:
    """The model of a family with the same weights whatever the implementation."""
    config = CONFIGS[family]()
    torch.manual_seed(3)
    cls = CLASSES.get(family, tf.AutoModelForCausalLM)
    if cls is tf.AutoModelForCausalLM:
        model = cls.from_config(config, attn_implementation="eager")
    else:
        config._attn_implementation = "eager"
        model = cls(config)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():  # larger than usual: masks and biases then matter
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    model.set_attn_implementation(implementation)
    return model.eval()


def inputs(family: str, padding: str | None = None) -> dict[str, torch.Tensor]:
    """Three texts of up to 12 tokens; padding is "left", "right" or None."""
    generator = torch.Generator().manual_seed(7)
    if family == "vit":
        return {"pixel_values": torch.randn(3, 3, 16, 16, generator=generator)}
    ids = torch.randint(3, 97, (3, 12), generator=generator)
    if family == "whisper":
        return {"input_features": torch.randn(3, 8, 40, generator=generator), "decoder_input_ids": ids}
    given = {"input_ids": ids}
    if padding is not None:
        mask = torch.ones(3, 12, dtype=torch.long)
        for text, missing in enumerate((0, 3, 7)):
            if missing:
                mask[text, slice(0, missing) if padding == "left" else slice(-missing, None)] = 0
        given["attention_mask"] = mask
    if family == "t5":
        given["decoder_input_ids"] = torch.randint(3, 97, (3, 9), generator=generator)
    return given


def real_rows(family: str, given: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """Which rows of the logits are of real tokens; None: all."""
    return given["attention_mask"].bool() if "attention_mask" in given and family != "t5" else None


def logits(output: Any) -> torch.Tensor:
    return output.logits if hasattr(output, "logits") else output.last_hidden_state
