// The tables of tensor names, one per family of architectures.
#include "model/weight_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "headwise/core/error.h"

namespace headwise {
namespace {

StackNames bert_stack() {
  return {.layer = "encoder.layer.{}.",
          .self = {.query = "attention.self.query",
                   .key = "attention.self.key",
                   .value = "attention.self.value",
                   .output = "attention.output.dense",
                   .norm = "attention.output.LayerNorm"},
          .up = "intermediate.dense",
          .down = "output.dense",
          .feed_forward_norm = "output.LayerNorm",
          .word = "embeddings.word_embeddings",
          .position = "embeddings.position_embeddings"};
}

WeightNames bert_names(std::string_view prefix) {
  return {.prefixes = {prefix},
          .encoder = bert_stack(),
          .token_type = "embeddings.token_type_embeddings",
          .embedding_norm = "embeddings.LayerNorm",
          .embedding_projection = "embeddings_project"};
}

WeightNames mpnet_names() {
  WeightNames names = bert_names("mpnet.");
  names.encoder.self = {.query = "attention.attn.q",
                        .key = "attention.attn.k",
                        .value = "attention.attn.v",
                        .output = "attention.attn.o",
                        .norm = "attention.LayerNorm"};
  names.encoder.relative_bias = "encoder.relative_attention_bias";
  return names;
}

WeightNames distilbert_names() {
  return {.prefixes = {"distilbert."},
          .encoder = {.layer = "transformer.layer.{}.",
                      .self = {.query = "attention.q_lin",
                               .key = "attention.k_lin",
                               .value = "attention.v_lin",
                               .output = "attention.out_lin",
                               .norm = "sa_layer_norm"},
                      .up = "ffn.lin1",
                      .down = "ffn.lin2",
                      .feed_forward_norm = "output_layer_norm",
                      .word = "embeddings.word_embeddings",
                      .position = "embeddings.position_embeddings"},
          .embedding_norm = "embeddings.LayerNorm"};
}

WeightNames gpt2_names() {
  return {.prefixes = {"transformer."},
          .decoder = {.layer = "h.{}.",
                      .self = {.query = "attn.c_attn", .output = "attn.c_proj", .norm = "ln_1"},
                      .up = "mlp.c_fc",
                      .down = "mlp.c_proj",
                      .feed_forward_norm = "ln_2",
                      .final_norm = "ln_f",
                      .word = "wte",
                      .position = "wpe"},
          .storage = ProjectionStorage::fused,
          .transposed = true};
}

WeightNames gpt_neox_names() {
  return {.prefixes = {"gpt_neox."},
          .decoder = {.layer = "layers.{}.",
                      .self = {.query = "attention.query_key_value",
                               .output = "attention.dense",
                               .norm = "input_layernorm"},
                      .up = "mlp.dense_h_to_4h",
                      .down = "mlp.dense_4h_to_h",
                      .feed_forward_norm = "post_attention_layernorm",
                      .final_norm = "final_layer_norm",
                      .word = "embed_in"},
          .storage = ProjectionStorage::fused_per_head};
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

StackNames marian_stack() {
  return {.self = {.query = "self_attn.q_proj",
                   .key = "self_attn.k_proj",
                   .value = "self_attn.v_proj",
                   .output = "self_attn.out_proj",
                   .norm = "self_attn_layer_norm"},
          .up = "fc1",
          .down = "fc2",
          .feed_forward_norm = "final_layer_norm"};
}

WeightNames marian_names() {
  WeightNames names{.prefixes = {"model."}, .shared_word = "shared"};
  names.encoder = names.decoder = marian_stack();
  names.encoder.layer = "encoder.layers.{}.";
  names.encoder.word = "encoder.embed_tokens";
  names.encoder.position = "encoder.embed_positions";
  names.decoder.layer = "decoder.layers.{}.";
  names.decoder.word = "decoder.embed_tokens";
  names.decoder.position = "decoder.embed_positions";
  names.decoder.cross = {.query = "encoder_attn.q_proj",
                         .key = "encoder_attn.k_proj",
                         .value = "encoder_attn.v_proj",
                         .output = "encoder_attn.out_proj",
                         .norm = "encoder_attn_layer_norm"};
  return names;
}

WeightNames t5_names() {
  WeightNames names{.shared_word = "shared"};
  names.encoder = {
      .layer = "encoder.block.{}.",
      .self = {.query = "layer.0.SelfAttention.q",
               .key = "layer.0.SelfAttention.k",
               .value = "layer.0.SelfAttention.v",
               .output = "layer.0.SelfAttention.o",
               .norm = "layer.0.layer_norm"},
      .up = "layer.1.DenseReluDense.wi",
      .gate = "layer.1.DenseReluDense.wi_0",
      .glu_up = "layer.1.DenseReluDense.wi_1",
      .down = "layer.1.DenseReluDense.wo",
      .feed_forward_norm = "layer.1.layer_norm",
      .final_norm = "encoder.final_layer_norm",
      .word = "encoder.embed_tokens",
      .relative_bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"};
  names.decoder = names.encoder;
  names.decoder.layer = "decoder.block.{}.";
  names.decoder.cross = {.query = "layer.1.EncDecAttention.q",
                         .key = "layer.1.EncDecAttention.k",
                         .value = "layer.1.EncDecAttention.v",
                         .output = "layer.1.EncDecAttention.o",
                         .norm = "layer.1.layer_norm"};
  names.decoder.up = "layer.2.DenseReluDense.wi";
  names.decoder.gate = "layer.2.DenseReluDense.wi_0";
  names.decoder.glu_up = "layer.2.DenseReluDense.wi_1";
  names.decoder.down = "layer.2.DenseReluDense.wo";
  names.decoder.feed_forward_norm = "layer.2.layer_norm";
  names.decoder.final_norm = "decoder.final_layer_norm";
  names.decoder.word = "decoder.embed_tokens";
  names.decoder.relative_bias = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias";
  return names;
}

const std::map<std::string, WeightNames>& tables() {
  static const std::map<std::string, WeightNames> tables = {
      {"bert", bert_names("bert.")},
      {"roberta", bert_names("roberta.")},
      {"xlm-roberta", bert_names("roberta.")},
      {"electra", bert_names("electra.")},
      {"mpnet", mpnet_names()},
      {"distilbert", distilbert_names()},
      {"gpt2", gpt2_names()},
      {"gpt_neox", gpt_neox_names()},
      {"llama", llama_names()},
      {"mistral", llama_names()},
      {"qwen2", llama_names()},
      {"qwen3", llama_names()},
      {"smollm3", llama_names()},
      {"marian", marian_names()},
      {"t5", t5_names()},
  };
  return tables;
}

TaskNames masked_lm_names(const ModelConfig& config) {
  const std::string& type = config.model_type;
  TaskNames names{.tied = true};
  if (type == "bert") {
    names.steps = {{"cls.predictions.transform.dense", config.activation,
                    "cls.predictions.transform.LayerNorm"}};
    names.output = "cls.predictions.decoder";
    names.bias = "cls.predictions.bias";
  } else if (type == "distilbert") {
    names.steps = {{"vocab_transform", config.activation, "vocab_layer_norm"}};
    names.output = "vocab_projector";
  } else if (type == "electra") {
    names.steps = {
        {"generator_predictions.dense", Activation::gelu, "generator_predictions.LayerNorm"}};
    names.output = "generator_lm_head";
  } else {
    names.steps = {{"lm_head.dense", Activation::gelu, "lm_head.layer_norm"}};
    names.output = "lm_head.decoder";
    names.bias = "lm_head.bias";
  }
  return names;
}

TaskNames classify_names(const ModelConfig& config, const std::string& prefix) {
  const std::string& type = config.model_type;
  if (config.encoder.layers() == 0) return {.rows = TaskRows::last, .output = "score"};
  TaskNames names{.rows = TaskRows::first, .output = "classifier.out_proj"};
  if (type == "bert") {
    const bool pairs = config.architecture == "BertForNextSentencePrediction";
    names.steps = {{prefix + "pooler.dense", Activation::tanh}};
    names.output = pairs ? "cls.seq_relationship" : "classifier";
  } else if (type == "distilbert") {
    names.steps = {{"pre_classifier", Activation::relu}};
    names.output = "classifier";
  } else {
    names.steps = {{"classifier.dense", type == "electra" ? Activation::gelu : Activation::tanh}};
  }
  return names;
}

bool ends_with_any(std::string_view name, std::span<const char* const> endings) {
  return std::ranges::any_of(endings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

const WeightNames& weight_names(const std::string& model_type) {
  const auto found = tables().find(model_type);
  if (found != tables().end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [name, table] : tables()) known.push_back(name);
  throw Error({.what = "the architecture is not known",
               .where = "model_type",
               .got = fmt::format("\"{}\"", model_type),
               .expected = fmt::format("one of {}", fmt::join(known, ", "))});
}

TaskNames task_names(const ModelConfig& config, const std::string& prefix) {
  const std::string& type = config.model_type;
  switch (config.task) {
    case Task::hidden:
      return {};
    case Task::masked_lm:
      return masked_lm_names(config);
    case Task::causal_lm:
      return {.output = type == "gpt_neox" ? "embed_out" : "lm_head", .tied = true};
    case Task::seq2seq_lm:
      return {
          .output = "lm_head", .bias = type == "marian" ? "final_logits_bias" : "", .tied = true};
    case Task::classify:
      return classify_names(config, prefix);
    case Task::classify_tokens: {
      const bool score = config.glu && config.encoder.layers() == 0;  // the Llama family
      return {.output = score ? "score" : "classifier"};
    }
    case Task::answer:
      return {.output = "qa_outputs"};
    case Task::detect:
      return {.steps = {{"discriminator_predictions.dense", config.activation}},
              .output = "discriminator_predictions.dense_prediction"};
  }
  return {};
}

bool is_buffer(std::string_view name) {
  static constexpr std::array kEndings = {
      "embeddings.position_ids",
      ".attn.bias",  // with the point: GPT-2's c_attn.bias is a parameter
      ".attn.masked_bias",
      ".attention.bias",
      ".attention.masked_bias",
      "rotary_emb.inv_freq",
      "layer.1.EncDecAttention.relative_attention_bias.weight",
  };
  return ends_with_any(name, kEndings);
}

bool is_left_over(std::string_view name) {
  static constexpr std::array kUnused = {
      "pooler.dense.weight",
      "pooler.dense.bias",
      "cls.seq_relationship.weight",
      "cls.seq_relationship.bias",
  };
  return is_buffer(name) || ends_with_any(name, kUnused);
}

}  // namespace headwise
