// The angles of rotary positions: plain, and scaled to longer texts.
#pragma once

#include "model/config_fields.h"

namespace headwise {

/// From "rope_parameters" (transformers 5), or "rope_theta", "rope_scaling" and the older names.
/// `head_dim` is D, `fraction` the part of it that is rotated unless the config says otherwise.
RotaryConfig read_rotary(ConfigFields& fields, int64_t head_dim, int64_t max_positions,
                         double theta, double fraction);

/// The frequencies of "dynamic" scaling for a text of `tokens` tokens.
std::vector<float> dynamic_frequencies(const RotaryConfig& rotary, int64_t max_positions,
                                       int64_t tokens);

}  // namespace headwise
