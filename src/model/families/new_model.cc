// Special tokens and heads of a new model in its config.json.
#include "model/families/new_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace headwise {

void write_token(nlohmann::ordered_json& json, const char* name, const std::optional<int32_t>& id) {
  json[name] = id ? nlohmann::ordered_json(*id) : nlohmann::ordered_json();
}

bool fields_describe(const HeadFieldKinds& kinds, const std::vector<HeadSettings>& layers,
                     int64_t width) {
  return std::ranges::all_of(layers, [&](const HeadSettings& layer) {
    return layer == layers.front() && layer.value_dim == layer.head_dim &&
           (kinds.own_width || layer.heads * layer.head_dim == width) &&
           (kinds.grouped || layer.kv_heads == layer.heads);
  });
}

int64_t stated_heads(const std::vector<HeadSettings>& layers, int64_t width) {
  return width % layers.front().heads == 0 ? layers.front().heads : 1;
}

void write_own_heads(nlohmann::ordered_json& json, const char* prefix,
                     const std::vector<HeadSettings>& layers) {
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const HeadSettings& own = layers[layer];
    json["headwise"]["attention"][fmt::format("{}L{}", prefix, layer)] = {
        {"heads", own.heads},
        {"kv_heads", own.kv_heads},
        {"head_dim", own.head_dim},
        {"value_dim", own.value_dim}};
  }
}

}  // namespace headwise
