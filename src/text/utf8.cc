// Looks for what is no UTF-8.
#include "headwise/text/utf8.h"

#include "text/unicode.h"

namespace headwise {

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  if (text::is_valid_utf8(text)) return std::nullopt;
  size_t at = 0;
  for (size_t size; (size = text::valid_char_size(text, at)) > 0;) at += size;
  return at;
}

std::string replace_invalid_utf8(std::string_view text) { return text::lossy_utf8(text); }

}  // namespace headwise
