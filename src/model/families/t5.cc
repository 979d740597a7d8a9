// T5.
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/families/family.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

void read_t5(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("d_model");
  config.vocabulary = config.decoder_vocabulary = fields.size("vocab_size");
  config.norm = NormKind::rms;
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("layer_norm_epsilon", 1e-6);
  config.projection_bias = config.output_bias = config.feed_forward_bias = false;
  config.relative = {.buckets = fields.size("relative_attention_num_buckets", 32),
                     .max_distance = fields.size("relative_attention_max_distance", 128)};
  const std::string projection = fields.text("feed_forward_proj", "relu");
  config.glu = projection.starts_with("gated-");
  const std::string activation = config.glu ? projection.substr(6) : projection;
  const auto found = find_activation(projection == "gated-gelu" ? "gelu_new" : activation);
  if (!found) {
    fields.object().refuse("feed_forward_proj", "the activation function is not known",
                           "relu, gelu, silu, or one of these after \"gated-\"");
  }
  config.activation = *found;
  fields.use("dense_act_fn");  // both repeat feed_forward_proj
  fields.use("is_gated_act");
  fields.must_be("is_decoder", false);
  const int64_t head_dim = fields.size("d_kv");
  config.encoder = read_stack(fields, config, {"num_layers", "num_heads"}, false, head_dim);
  config.encoder.intermediate = fields.size("d_ff");
  if (!is_encoder_only(config)) {
    const bool own = fields.has("num_decoder_layers");
    config.decoder = read_stack(
        fields, config, {own ? "num_decoder_layers" : "num_layers", "num_heads"}, true, head_dim);
    config.decoder.intermediate = config.encoder.intermediate;
    config.decoder.cross.resize(config.decoder.layers());
  }
  fields.use("num_decoder_layers");
  // T5 1.0 ties and scales, 1.1 does neither; version 5 of transformers writes only the latter.
  const bool tied = fields.boolean("tie_word_embeddings", true);
  config.tied = fields.boolean("scale_decoder_outputs", tied);
  if (config.tied) config.output_scale = 1 / std::sqrt(static_cast<float>(config.width));
  for (auto* attentions :
       {&config.encoder.attention, &config.decoder.attention, &config.decoder.cross}) {
    for (AttentionConfig& attention : *attentions) attention.scale = 1;
  }
}

InitStd t5_init_std(const ModelConfig& config, const JsonObject& json) {
  const double factor = read_init_scale(json, "initializer_factor", 1);
  const StackConfig& stack = config.encoder;
  const auto C = static_cast<double>(config.width), D = static_cast<double>(stack.head_dim);
  const double wide = factor / std::sqrt(C);
  return {.word = factor,
          .position = factor,
          .relative = wide,
          .query = wide / std::sqrt(D),
          .key_value = wide,
          .attention_output = factor / std::sqrt(static_cast<double>(stack.heads) * D),
          .up = wide,
          .down = factor / std::sqrt(static_cast<double>(stack.intermediate)),
          .output = factor};
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

TaskNames t5_output(const ModelConfig&, const std::string&) {
  return {.output = "lm_head", .tied = true, .tied_unless_stored = true};
}

void write_t5_heads(nlohmann::ordered_json& json, const ModelConfig&, const UniformHeads& uniform) {
  json["num_heads"] = uniform.heads;
}

}  // namespace

Family t5_family() {
  return {.type = "t5",
          .name = "T5",
          .read = read_t5,
          .classes = {{"Model", Task::hidden},
                      {.ending = "EncoderModel", .task = Task::hidden, .encoder_only = true},
                      {"ForConditionalGeneration", Task::seq2seq_lm, t5_output}},
          .names = t5_names(),
          .buffers = {"layer.1.EncDecAttention.relative_attention_bias.weight"},
          .init_std = t5_init_std,
          .dropouts = {.in_feed_forward = true, .final = true},
          .padding_row = false,
          .write_uniform = write_t5_heads};
}

}  // namespace headwise
