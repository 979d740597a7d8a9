// Reads the object "held_out".
#pragma once

#include "headwise/plan/held_out.h"
#include "io/json.h"

namespace headwise {

/// Throws Error for what is none.
HeldOut held_out_from(const JsonObject& json);

}  // namespace headwise
