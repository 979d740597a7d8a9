// Mistral: Llama whose layers all see only a window, without biases.
#include "model/families/llama.h"

namespace headwise {
namespace {

void read_mistral(ConfigFields& fields, ModelConfig& config) {
  read_llama_fields(fields, config, {});
  const int64_t window = read_window(fields, 4096);
  if (window == 0) return;
  for (AttentionConfig& layer : config.decoder.attention) layer.left = window - 1;
}

}  // namespace

Family mistral_family() {
  return {.type = "mistral",
          .name = "Mistral",
          .read = read_mistral,
          .classes = llama_classes(),
          .names = llama_names(),
          .buffers = {kInverseFrequencies},
          .write_uniform = write_llama_heads};
}

}  // namespace headwise
