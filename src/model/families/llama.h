// What Llama shares with the decoders that descend from it.
#pragma once

#include <optional>
#include <vector>

#include "model/families/family.h"

namespace headwise {

/// What a config without the field means.
struct LlamaDefaults {
  std::optional<int64_t> head_dim{};  // the width divided among the heads
  bool kv_heads = false;              // as many as heads; otherwise the field must be there
  double rope_theta = 10000;
  bool tied = false;
};

/// All fields but those of biases of attention and of windows.
void read_llama_fields(ConfigFields& fields, ModelConfig& config, const LlamaDefaults& defaults);

/// "attention_bias": of all four projections.
void read_attention_bias(ConfigFields& fields, ModelConfig& config);

/// "sliding_window", in tokens; 0: none.
int64_t read_window(ConfigFields& fields, int64_t otherwise);

/// "layer_types", or else `sliding`: which layers see only a window, if windows are used.
void read_sliding_layers(ConfigFields& fields, ModelConfig& config, std::vector<bool> sliding,
                         int64_t window);

WeightNames llama_names();

inline constexpr std::string_view kInverseFrequencies = "rotary_emb.inv_freq";  // a buffer

std::vector<ModelClass> llama_classes();

/// "num_attention_heads", "num_key_value_heads" and "head_dim".
void write_llama_heads(nlohmann::ordered_json& json, const ModelConfig& config,
                       const UniformHeads& uniform);

}  // namespace headwise
