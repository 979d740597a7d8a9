// Marian (OPUS-MT).
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/families/family.h"
#include "model/families/new_model.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

// Far above any model; what it bounds is laid out before a tensor is seen.
constexpr int64_t kMostComputedPositions = 1 << 16;

void read_marian(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("d_model");
  config.vocabulary = fields.size("vocab_size");
  config.decoder_vocabulary = fields.size("decoder_vocab_size", config.vocabulary);
  config.epsilon = 1e-5f;  // fixed in the architecture
  config.activation = fields.activation("activation_function", "gelu");
  config.positions = PositionKind::sinusoidal;
  config.max_positions = fields.size_at_most("max_position_embeddings", kMostComputedPositions);
  if (fields.boolean("scale_embedding", false)) {
    config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  }
  config.shared_embeddings = fields.boolean("share_encoder_decoder_embeddings", true);
  fields.must_be("is_decoder", false);
  fields.must_be("add_final_layer_norm", false);
  fields.must_be("normalize_before", false);
  fields.must_be("normalize_embedding", false);
  fields.must_be("static_position_embeddings", true);
  fields.use("num_hidden_layers");  // repeats encoder_layers
  config.encoder = read_stack(fields, config, {"encoder_layers", "encoder_attention_heads"}, false);
  config.encoder.intermediate = fields.size("encoder_ffn_dim");
  config.decoder = read_stack(fields, config, {"decoder_layers", "decoder_attention_heads"}, true);
  config.decoder.intermediate = fields.size("decoder_ffn_dim");
  config.decoder.cross.resize(config.decoder.layers());
  config.translates = true;
}

WeightNames marian_names() {
  const StackNames both = {.self = {.query = "self_attn.q_proj",
                                    .key = "self_attn.k_proj",
                                    .value = "self_attn.v_proj",
                                    .output = "self_attn.out_proj",
                                    .norm = "self_attn_layer_norm"},
                           .up = "fc1",
                           .down = "fc2",
                           .feed_forward_norm = "final_layer_norm"};
  WeightNames names{
      .prefixes = {"model."}, .encoder = both, .decoder = both, .shared_word = "shared"};
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

TaskNames marian_output(const ModelConfig&, const std::string&) {
  return {.output = "lm_head", .bias = "final_logits_bias", .bias_is_buffer = true, .tied = true};
}

void write_new_marian(nlohmann::ordered_json& json, const NewModelSizes& sizes,
                      const Tokenizer::SpecialTokens& special) {
  json["is_encoder_decoder"] = true;
  json["d_model"] = sizes.width;
  json["encoder_layers"] = sizes.encoder.size();
  json["decoder_layers"] = sizes.decoder.size();
  json["encoder_attention_heads"] = stated_heads(sizes.encoder, sizes.width);
  json["decoder_attention_heads"] = stated_heads(sizes.decoder, sizes.width);
  json["encoder_ffn_dim"] = sizes.feed_forward;
  json["decoder_ffn_dim"] = sizes.feed_forward;
  json["activation_function"] = sizes.activation;
  json["max_position_embeddings"] = sizes.positions;
  json["decoder_vocab_size"] = sizes.vocabulary;
  json["scale_embedding"] = true;
  json["share_encoder_decoder_embeddings"] = true;
  json["static_position_embeddings"] = true;
  // Scaled embeddings of words are then as long as those of positions.
  json["init_std"] = 1 / std::sqrt(static_cast<double>(sizes.width));
  write_token(json, "pad_token_id", special.pad);
  write_token(json, "decoder_start_token_id", special.pad);
  write_token(json, "eos_token_id", special.eos);
  write_token(json, "forced_eos_token_id", special.eos);
  json["bos_token_id"] = nullptr;
  if (!fields_describe({}, sizes.encoder, sizes.width)) {
    write_own_heads(json, "enc.", sizes.encoder);
  }
  if (!fields_describe({}, sizes.decoder, sizes.width) || sizes.cross != sizes.decoder) {
    write_own_heads(json, "dec.", sizes.decoder);
    write_own_heads(json, "cross.", sizes.cross);
  }
}

}  // namespace

Family marian_family() {
  return {.type = "marian",
          .name = "Marian",
          .read = read_marian,
          .classes = {{"Model", Task::hidden}, {"MTModel", Task::seq2seq_lm, marian_output}},
          .names = marian_names(),
          .new_model = {.tasks = {Task::seq2seq_lm},
                        .activation = "relu",
                        .positions = PositionKind::sinusoidal,
                        .write = write_new_marian}};
}

}  // namespace headwise
