// The number for what cannot be measured.
#pragma once

#include <limits>

namespace headwise {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace headwise
