// Reads the object "held_out".
#pragma once

#include "headwise/io/json.h"
#include "headwise/plan/held_out.h"

namespace headwise {

/// Throws Error for what is none.
HeldOut held_out_from(const JsonObject& json);

}  // namespace headwise
