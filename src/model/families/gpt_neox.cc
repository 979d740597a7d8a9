// GPT-NeoX (Pythia).
#include "model/families/family.h"
#include "model/families/output_layers.h"
#include "model/families/stack_fields.h"
#include "model/rotary_frequencies.h"

namespace headwise {
namespace {

void read_gpt_neox(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("hidden_size");
  config.vocabulary = fields.size("vocab_size");
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("layer_norm_eps", 1e-5);
  config.activation = fields.activation("hidden_act", "gelu");
  config.parallel = fields.boolean("use_parallel_residual", true);
  config.projection_bias = config.output_bias = fields.boolean("attention_bias", true);
  config.positions = PositionKind::rotary;
  config.max_positions = fields.size("max_position_embeddings");
  fields.use("is_decoder");
  config.decoder = read_stack(fields, config, {"num_hidden_layers", "num_attention_heads"}, true);
  config.decoder.intermediate = fields.size("intermediate_size");
  config.rotary = read_rotary(fields, config.decoder.head_dim, config.max_positions, 10000, 0.25);
  config.tied = fields.boolean("tie_word_embeddings", false);
}

TaskNames gpt_neox_causal_lm(const ModelConfig&, const std::string&) {
  return {.output = "embed_out", .tied = true};
}

}  // namespace

Family gpt_neox_family() {
  return {.type = "gpt_neox",
          .name = "GPTNeoX",
          .read = read_gpt_neox,
          .classes = {{"Model", Task::hidden},
                      {"ForCausalLM", Task::causal_lm, gpt_neox_causal_lm},
                      {"ForSequenceClassification", Task::classify, last_token_score},
                      {"ForTokenClassification", Task::classify_tokens, token_classifier},
                      {"ForQuestionAnswering", Task::answer, answer_span}},
          .names = {.prefixes = {"gpt_neox."},
                    .decoder = {.layer = "layers.{}.",
                                .self = {.query = "attention.query_key_value",
                                         .output = "attention.dense",
                                         .norm = "input_layernorm"},
                                .up = "mlp.dense_h_to_4h",
                                .down = "mlp.dense_4h_to_h",
                                .feed_forward_norm = "post_attention_layernorm",
                                .final_norm = "final_layer_norm",
                                .word = "embed_in"},
                    .storage = ProjectionStorage::fused_per_head},
          .buffers = {".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq"},
          .padding_row = false};
}

}  // namespace headwise
