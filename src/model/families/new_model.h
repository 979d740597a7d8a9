// What families write into the config.json of a new model.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "headwise/model/config.h"

namespace headwise {

/// The id of a special token, or null.
void write_token(nlohmann::ordered_json& json, const char* name, const std::optional<int32_t>& id);

/// What fields of an architecture can say about heads, besides a number that divides the width.
struct HeadFieldKinds {
  bool own_width = false;  // the width of a head
  bool grouped = false;    // the number of key/value heads
};

/// Whether such fields describe all layers.
bool fields_describe(const HeadFieldKinds& kinds, const std::vector<HeadSettings>& layers,
                     int64_t width);

/// What the architecture's own field says of heads that stand in "headwise": a number that it
/// takes.
int64_t stated_heads(const std::vector<HeadSettings>& layers, int64_t width);

/// Writes the heads of every layer into "headwise"; `prefix` begins the names of the attentions:
/// "", "enc.", "dec." or "cross.".
void write_own_heads(nlohmann::ordered_json& json, const char* prefix,
                     const std::vector<HeadSettings>& layers);

}  // namespace headwise
