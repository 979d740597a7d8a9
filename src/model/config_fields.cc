// Reads single fields of config.json, and knows the harmless ones.
#include "model/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <map>

#include "headwise/core/error.h"

namespace headwise {
namespace {

const std::map<std::string_view, Activation>& activations() {
  static const std::map<std::string_view, Activation> known = {
      {"gelu", Activation::gelu},           {"gelu_new", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_python", Activation::gelu},    {"relu", Activation::relu},
      {"silu", Activation::silu},           {"swish", Activation::silu},
      {"tanh", Activation::tanh},
  };
  return known;
}

/// Fields that transformers writes and that do not change what a forward pass computes: training,
/// generation, bookkeeping. Every field that ends in "dropout" or "layerdrop" is as well.
constexpr auto kHarmless = std::to_array<std::string_view>({
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "_num_labels",
    "add_bias_logits",
    "architectures",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cls_token_id",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "directionality",
    "diversity_penalty",
    "do_sample",
    "dropout_rate",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "extra_pos_embeddings",
    "finetuning_task",
    "force_bos_token_to_be_generated",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "generator_size",
    "gradient_checkpointing",
    "gradient_checkpointing_kwargs",
    "hidden_dropout_prob",
    "id2label",
    "init_std",
    "initializer_factor",
    "initializer_range",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_sequence_length",
    "min_length",
    "model_type",
    "n_ctx",
    "n_positions",
    "n_special",
    "neftune_noise_alpha",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "predict_special_tokens",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sbert_ce_default_activation_function",
    "sentence_transformers",
    "sep_token_id",
    "sinusoidal_pos_embds",
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_weights_",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "vocab_file",
    "xla_device",
});

bool is_harmless(std::string_view name) {
  return name.ends_with("dropout") || name.ends_with("layerdrop") ||
         std::ranges::find(kHarmless, name) != kHarmless.end();
}

}  // namespace

std::optional<Activation> find_activation(std::string_view name) {
  const auto found = activations().find(name);
  return found == activations().end() ? std::nullopt : std::optional(found->second);
}

bool ConfigFields::is_null(std::string_view name) {
  const auto names = object_.names();
  return std::ranges::find(names, name) != names.end() && !has(name);
}

int64_t ConfigFields::size(std::string_view name) {
  return object_.integer(use(name), 1, INT32_MAX);
}

int64_t ConfigFields::size(std::string_view name, int64_t otherwise) {
  return object_.optional_integer(use(name), 1, INT32_MAX).value_or(otherwise);
}

int64_t ConfigFields::size_at_most(std::string_view name, int64_t most) {
  return object_.integer(use(name), 1, most);
}

double ConfigFields::number(std::string_view name, double otherwise) {
  return object_.optional_number(use(name)).value_or(otherwise);
}

float ConfigFields::epsilon(std::string_view name, std::optional<double> otherwise) {
  const double value = otherwise ? number(name, *otherwise) : object_.number(use(name));
  if (!(value >= FLT_MIN && value <= 1)) {
    object_.refuse(name, "the epsilon of a norm is not a small positive number",
                   "above 0, at most 1");
  }
  return static_cast<float>(value);
}

bool ConfigFields::boolean(std::string_view name, bool otherwise) {
  return object_.optional_boolean(use(name)).value_or(otherwise);
}

std::string ConfigFields::text(std::string_view name, std::string_view otherwise) {
  return object_.optional_text(use(name)).value_or(std::string(otherwise));
}

std::optional<int32_t> ConfigFields::token(std::string_view name) {
  const auto id = object_.optional_integer(use(name), -1, INT32_MAX);
  return id && *id >= 0 ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
}

std::vector<int32_t> ConfigFields::tokens(std::string_view name) {
  if (!has(name)) return {};
  if (!object_.value(name).is_array()) {
    const auto id = token(name);
    return id ? std::vector{*id} : std::vector<int32_t>{};
  }
  std::vector<int32_t> ids;
  for (const int64_t id : object_.integers(name, 0, INT32_MAX)) {
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Activation ConfigFields::activation(std::string_view name, std::string_view otherwise) {
  const std::string got = text(name, otherwise);
  if (const auto found = find_activation(got)) return *found;
  std::vector<std::string_view> known;
  for (const auto& [activation, value] : activations()) known.push_back(activation);
  object_.refuse(name, "the activation function is not known",
                 fmt::format("one of {}", fmt::join(known, ", ")));
}

void ConfigFields::must_be(std::string_view name, bool expected) {
  if (boolean(name, expected) == expected) return;
  object_.refuse(name, "this variant of the architecture is not supported",
                 expected ? "true" : "false");
}

void ConfigFields::must_be(std::string_view name, const char* expected) {
  if (text(name, expected) == expected) return;
  object_.refuse(name, "this variant of the architecture is not supported",
                 fmt::format("\"{}\"", expected));
}

void ConfigFields::finish(const std::set<std::string>& ignored) const {
  for (const std::string& name : object_.names()) {
    if (!object_.has(name) || used_.contains(name) || is_harmless(name) || ignored.contains(name)) {
      continue;
    }
    object_.refuse(name, "a field of the config is not understood, and may change what is computed",
                   "a field that this architecture is known to have",
                   "if it is harmless, ignore it by its name");
  }
}

}  // namespace headwise
