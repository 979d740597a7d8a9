// GPT-2.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/families/family.h"
#include "model/families/new_model.h"
#include "model/families/output_layers.h"
#include "model/families/stack_fields.h"

namespace headwise {
namespace {

void read_gpt2(ConfigFields& fields, ModelConfig& config) {
  config.width = config.embedding_width = fields.size("n_embd");
  config.vocabulary = fields.size("vocab_size");
  config.norm_place = NormPlace::before;
  config.epsilon = fields.epsilon("layer_norm_epsilon", 1e-5);
  config.activation = fields.activation("activation_function", "gelu_new");
  config.positions = PositionKind::learned;
  config.max_positions = fields.size("n_positions");
  fields.use("is_decoder");
  config.decoder = read_stack(fields, config, {"n_layer", "n_head"}, true);
  config.decoder.intermediate = fields.size("n_inner", 4 * config.width);
  const bool scaled = fields.boolean("scale_attn_weights", true);
  const bool by_layer = fields.boolean("scale_attn_by_inverse_layer_idx", false);
  if (scaled && !by_layer) return;
  for (int64_t layer = 0; layer < config.decoder.layers(); ++layer) {
    const double scale = scaled ? 1 / std::sqrt(static_cast<double>(config.decoder.head_dim)) : 1.;
    config.decoder.attention[layer].scale =
        static_cast<float>(by_layer ? scale / static_cast<double>(layer + 1) : scale);
  }
}

/// The sum of two branches per layer is accounted for.
InitStd gpt2_init_std(const ModelConfig& config, const JsonObject& json) {
  InitStd std = usual_init_std(config, json);
  const double layers = static_cast<double>(std::max<int64_t>(1, config.decoder.layers()));
  std.attention_output = std.down = std.down / std::sqrt(2 * layers);
  return std;
}

void write_new_gpt2(nlohmann::ordered_json& json, const NewModelSizes& sizes,
                    const Tokenizer::SpecialTokens& special) {
  json["n_embd"] = sizes.width;
  json["n_layer"] = sizes.decoder.size();
  json["n_head"] = stated_heads(sizes.decoder, sizes.width);
  json["n_inner"] = sizes.feed_forward;
  json["activation_function"] = sizes.activation;
  json["n_positions"] = sizes.positions;
  json["layer_norm_epsilon"] = 1e-5;
  write_token(json, "bos_token_id", special.bos);
  write_token(json, "eos_token_id", special.eos);
  write_token(json, "pad_token_id", special.pad);
  if (!fields_describe({}, sizes.decoder, sizes.width)) write_own_heads(json, "", sizes.decoder);
}

}  // namespace

Family gpt2_family() {
  return {.type = "gpt2",
          .name = "GPT2",
          .read = read_gpt2,
          .classes = {{"Model", Task::hidden},
                      {"LMHeadModel", Task::causal_lm, lm_head},
                      {"ForSequenceClassification", Task::classify, last_token_score},
                      {"ForTokenClassification", Task::classify_tokens, token_classifier},
                      {"ForQuestionAnswering", Task::answer, answer_span}},
          .names = {.prefixes = {"transformer."},
                    .decoder = {.layer = "h.{}.",
                                .self = {.query = "attn.c_attn",
                                         .output = "attn.c_proj",
                                         .norm = "ln_1"},
                                .up = "mlp.c_fc",
                                .down = "mlp.c_proj",
                                .feed_forward_norm = "ln_2",
                                .final_norm = "ln_f",
                                .word = "wte",
                                .position = "wpe"},
                    .storage = ProjectionStorage::fused,
                    .transposed = true},
          // With the point: c_attn.bias is a parameter.
          .buffers = {".attn.bias", ".attn.masked_bias"},
          .init_std = gpt2_init_std,
          .padding_row = false,
          .new_model = {.tasks = {Task::causal_lm, Task::classify},
                        .activation = "gelu_new",
                        .positions = PositionKind::learned,
                        .write = write_new_gpt2}};
}

}  // namespace headwise
