// The name that was probably meant: for "did you mean ...?".
#pragma once

#include <span>
#include <string_view>

namespace headwise {

/// The name with the fewest changed, added or left out letters, or "" if none is within two.
std::string_view closest_name(std::string_view got, std::span<const std::string_view> names);

}  // namespace headwise
