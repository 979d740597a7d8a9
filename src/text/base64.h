// Base64, the form in which JSON holds bytes.
#pragma once

#include <string>
#include <string_view>

namespace headwise::text {

/// Throws Error, with `where`, for anything that is not base64 with padding.
std::string decode_base64(std::string_view text, const std::string& where);

/// With padding.
std::string encode_base64(std::string_view bytes);

}  // namespace headwise::text
