// SmolLM3: Llama in which every fourth layer has no positions.
#include <fmt/format.h>

#include "model/families/llama.h"

namespace headwise {
namespace {

void read_rotated_layers(ConfigFields& fields, ModelConfig& config) {
  std::vector<AttentionConfig>& layers = config.decoder.attention;
  const int64_t interval = fields.size("no_rope_layer_interval", 4);
  std::vector<int64_t> rotated;
  if (fields.has("no_rope_layers")) {
    rotated = fields.object().integers("no_rope_layers", 0, 1);
    if (rotated.size() != layers.size()) {
      fields.object().refuse("no_rope_layers", "not one number per layer",
                             fmt::format("{} numbers", layers.size()));
    }
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].rotary =
        rotated.empty() ? (static_cast<int64_t>(i) + 1) % interval != 0 : rotated[i] == 1;
  }
}

void read_smollm3(ConfigFields& fields, ModelConfig& config) {
  read_llama_fields(fields, config, {.rope_theta = 2e6, .tied = true});
  read_attention_bias(fields, config);
  read_rotated_layers(fields, config);
  fields.use("max_window_layers");  // written, but layers without positions have the windows
  std::vector<bool> sliding;
  for (const AttentionConfig& layer : config.decoder.attention) sliding.push_back(!layer.rotary);
  read_sliding_layers(fields, config, std::move(sliding), read_window(fields, 0));
}

}  // namespace

Family smollm3_family() {
  return {.type = "smollm3",
          .name = "SmolLM3",
          .read = read_smollm3,
          .classes = llama_classes(),
          .names = llama_names(),
          .buffers = {kInverseFrequencies},
          .write_uniform = write_llama_heads};
}

}  // namespace headwise
