// Llama.
#include "model/families/llama.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "headwise/core/error.h"
#include "model/families/output_layers.h"
#include "model/families/stack_fields.h"
#include "model/rotary_frequencies.h"

namespace headwise {
namespace {

void read_llama(ConfigFields& fields, ModelConfig& config) {
  read_llama_fields(fields, config, {.kv_heads = true});
  read_attention_bias(fields, config);
}

int64_t read_kv_heads(ConfigFields& fields, int64_t heads, const LlamaDefaults& defaults) {
  constexpr const char* kName = "num_key_value_heads";
  const bool all = defaults.kv_heads || fields.is_null(kName);
  return all ? fields.size(kName, heads) : fields.size(kName);
}

/// Mistral is Llama with heads of any width.
void write_as_mistral(nlohmann::ordered_json& json, const ModelConfig& config,
                      const UniformHeads& uniform) {
  if (config.projection_bias || config.output_bias || config.feed_forward_bias) {
    throw Error({.what = "the uniform form cannot hold this model",
                 .where = config.model_type,
                 .got = "biases, which Mistral has not",
                 .expected = "a Llama without biases",
                 .hint = "the compact form can"});
  }
  write_llama_heads(json, config, uniform);
  for (const char* field : {"attention_bias", "mlp_bias", "pretraining_tp"}) json.erase(field);
  json["model_type"] = "mistral";
  json["sliding_window"] = nullptr;
  for (nlohmann::ordered_json& name : json["architectures"]) {
    const std::string text = name.get<std::string>();
    if (text.starts_with("Llama")) name = "Mistral" + text.substr(5);
  }
}

}  // namespace

void read_llama_fields(ConfigFields& fields, ModelConfig& config, const LlamaDefaults& defaults) {
  config.width = config.embedding_width = fields.size("hidden_size");
  config.vocabulary = fields.size("vocab_size");
  config.norm = NormKind::rms;
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("rms_norm_eps", 1e-6);
  config.glu = true;
  config.activation = fields.activation("hidden_act", "silu");
  config.projection_bias = config.output_bias = false;
  config.feed_forward_bias = fields.boolean("mlp_bias", false);
  config.positions = PositionKind::rotary;
  config.max_positions = fields.size("max_position_embeddings");
  const int64_t heads = fields.size("num_attention_heads");
  std::optional<int64_t> head_dim = defaults.head_dim;
  if (fields.has("head_dim")) head_dim = fields.size("head_dim");
  config.decoder = read_stack(fields, config, {"num_hidden_layers", "num_attention_heads"}, true,
                              head_dim, read_kv_heads(fields, heads, defaults));
  config.decoder.intermediate = fields.size("intermediate_size");
  config.rotary =
      read_rotary(fields, config.decoder.head_dim, config.max_positions, defaults.rope_theta, 1);
  fields.use("is_decoder");
  fields.must_be("use_mrope", false);
  config.tied = fields.boolean("tie_word_embeddings", defaults.tied);
}

void read_attention_bias(ConfigFields& fields, ModelConfig& config) {
  config.projection_bias = config.output_bias = fields.boolean("attention_bias", false);
}

int64_t read_window(ConfigFields& fields, int64_t otherwise) {
  if (fields.is_null("sliding_window")) return 0;
  return fields.size("sliding_window", otherwise);
}

void read_sliding_layers(ConfigFields& fields, ModelConfig& config, std::vector<bool> sliding,
                         int64_t window) {
  std::vector<AttentionConfig>& layers = config.decoder.attention;
  const bool used = fields.boolean("use_sliding_window", false) && window > 0;
  if (fields.has("layer_types")) {
    const std::vector<std::string> types = fields.object().texts("layer_types");
    if (!types.empty() && types.size() != layers.size()) {
      fields.object().refuse("layer_types", "not one type per layer",
                             fmt::format("{} types", layers.size()));
    }
    for (size_t layer = 0; layer < types.size(); ++layer) {
      sliding[layer] = types[layer] == "sliding_attention";
      if (!sliding[layer] && types[layer] != "full_attention") {
        fields.object().refuse("layer_types", "a type of layer is not known",
                               "full_attention or sliding_attention");
      }
      if (sliding[layer] && !used) {
        fields.object().refuse("sliding_window", "layers slide, but no window is in use",
                               "its width in tokens, and use_sliding_window true");
      }
    }
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    if (used && sliding[layer]) layers[layer].left = window - 1;
  }
}

WeightNames llama_names() {
  return {.prefixes = {"model.", "transformer."},
          .decoder = {.layer = "layers.{}.",
                      .self = {.query = "self_attn.q_proj",
                               .key = "self_attn.k_proj",
                               .value = "self_attn.v_proj",
                               .output = "self_attn.o_proj",
                               .norm = "input_layernorm",
                               .query_norm = "self_attn.q_norm",
                               .key_norm = "self_attn.k_norm"},
                      .gate = "mlp.gate_proj",
                      .glu_up = "mlp.up_proj",
                      .down = "mlp.down_proj",
                      .feed_forward_norm = "post_attention_layernorm",
                      .final_norm = "norm",
                      .word = "embed_tokens"}};
}

std::vector<ModelClass> llama_classes() {
  return {{"Model", Task::hidden},
          {"ForCausalLM", Task::causal_lm, lm_head},
          {"ForSequenceClassification", Task::classify, last_token_score},
          {"ForTokenClassification", Task::classify_tokens, token_score},
          {"ForQuestionAnswering", Task::answer, answer_span}};
}

void write_llama_heads(nlohmann::ordered_json& json, const ModelConfig&,
                       const UniformHeads& uniform) {
  json["num_attention_heads"] = uniform.heads;
  json["num_key_value_heads"] = uniform.kv_heads;
  json["head_dim"] = uniform.head_dim;
}

namespace {

void write_new_llama(nlohmann::ordered_json& json, const NewModelSizes& sizes,
                     const Tokenizer::SpecialTokens& special) {
  const HeadSettings& first = sizes.decoder.front();
  json["hidden_size"] = sizes.width;
  json["num_hidden_layers"] = sizes.decoder.size();
  json["num_attention_heads"] = first.heads;
  json["num_key_value_heads"] = first.kv_heads;
  json["head_dim"] = first.head_dim;
  json["intermediate_size"] = sizes.feed_forward;
  json["hidden_act"] = sizes.activation;
  json["max_position_embeddings"] = sizes.positions;
  json["rms_norm_eps"] = 1e-6;
  json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  json["attention_bias"] = false;
  json["mlp_bias"] = false;
  write_token(json, "bos_token_id", special.bos);
  write_token(json, "eos_token_id", special.eos);
  write_token(json, "pad_token_id", special.pad);
  if (!fields_describe({.own_width = true, .grouped = true}, sizes.decoder, sizes.width)) {
    write_own_heads(json, "", sizes.decoder);
  }
}

}  // namespace

Family llama_family() {
  return {.type = "llama",
          .name = "Llama",
          .read = read_llama,
          .classes = llama_classes(),
          .names = llama_names(),
          .buffers = {kInverseFrequencies},
          .new_model = {.tasks = {Task::causal_lm, Task::classify},
                        .activation = "silu",
                        .positions = PositionKind::rotary,
                        .glu = true,
                        .write = write_new_llama},
          .write_uniform = write_as_mistral};
}

}  // namespace headwise
