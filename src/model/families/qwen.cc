// Qwen2 and Qwen3: Llama with windows in later layers; version 2 has biases, version 3 norms of
// queries and keys.
#include "model/families/llama.h"

namespace headwise {
namespace {

void read_qwen_windows(ConfigFields& fields, ModelConfig& config) {
  const int64_t from =
      fields.has("max_window_layers") ? fields.object().integer("max_window_layers") : 28;
  std::vector<bool> sliding;
  for (int64_t layer = 0; layer < config.decoder.layers(); ++layer) {
    sliding.push_back(layer >= from);
  }
  read_sliding_layers(fields, config, std::move(sliding), read_window(fields, 4096));
}

void read_qwen2(ConfigFields& fields, ModelConfig& config) {
  read_llama_fields(fields, config, {});
  config.projection_bias = true;
  read_qwen_windows(fields, config);
}

void read_qwen3(ConfigFields& fields, ModelConfig& config) {
  read_llama_fields(fields, config, {.head_dim = 128});
  read_attention_bias(fields, config);
  config.qk_norm = true;
  read_qwen_windows(fields, config);
}

}  // namespace

Family qwen2_family() {
  return {.type = "qwen2",
          .name = "Qwen2",
          .read = read_qwen2,
          .classes = llama_classes(),
          .names = llama_names(),
          .buffers = {kInverseFrequencies},
          .write_uniform = write_llama_heads};
}

Family qwen3_family() {
  Family family = qwen2_family();
  family.type = "qwen3";
  family.name = "Qwen3";
  family.read = read_qwen3;
  return family;
}

}  // namespace headwise
