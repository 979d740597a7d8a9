// Normless: an encoder without norms, whose weights can be written by hand. It is an architecture
// of headwise: transformers has none like it.
#include "model/families/family.h"
#include "model/families/output_layers.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

void read_normless(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("hidden_size");
  config.vocabulary = fields.size("vocab_size");
  config.norm = NormKind::none;
  config.norm_place = NormPlace::before;
  config.activation = fields.activation("hidden_act", "relu");
  config.positions = PositionKind::learned;
  config.max_positions = fields.size("max_position_embeddings");
  std::optional<int64_t> head_dim;
  if (fields.has("head_dim")) head_dim = fields.size("head_dim");
  config.encoder =
      read_stack(fields, config, {"num_hidden_layers", "num_attention_heads"}, false, head_dim);
  config.encoder.intermediate = fields.size("intermediate_size");
  if (!fields.has("attention_scale")) return;
  const float scale = fields.epsilon("attention_scale");
  for (AttentionConfig& attention : config.encoder.attention) attention.scale = scale;
}

}  // namespace

Family normless_family() {
  return {.type = "normless",
          .name = "Normless",
          .read = read_normless,
          .classes = {{"Model", Task::hidden},
                      {"ForTokenClassification", Task::classify_tokens, token_classifier}},
          .names = {.prefixes = {"model."},
                    .encoder = {.layer = "layers.{}.",
                                .self = {.query = "attention.query",
                                         .key = "attention.key",
                                         .value = "attention.value",
                                         .output = "attention.output"},
                                .up = "feed_forward.up",
                                .down = "feed_forward.down",
                                .word = "embeddings.word",
                                .position = "embeddings.position"}}};
}

}  // namespace headwise
