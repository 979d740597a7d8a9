// The angles of rotary positions: plain, and scaled to longer texts.
#pragma once

#include "model/config_fields.h"

namespace headwise {

/// From "rope_parameters" (transformers 5), or "rope_theta", "rope_scaling" and the older names.
/// `head_dim` is D, `fraction` the part of it that is turned unless the config says otherwise.
RotaryConfig read_rotary(ConfigFields& fields, int64_t head_dim, int64_t max_positions,
                         double theta, double fraction);

}  // namespace headwise
