// Text that may be no UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace headwise {

/// The first byte that belongs to no character; none: the text is valid UTF-8.
std::optional<size_t> find_invalid_utf8(std::string_view text);

/// Every longest start of a character that does not go on, and every other byte that fits nowhere,
/// becomes U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace headwise
