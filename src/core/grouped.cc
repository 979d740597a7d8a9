// Puts a comma before every three digits.
#include "headwise/core/grouped.h"

#include <fmt/format.h>

namespace headwise {

std::string grouped(int64_t number) {
  std::string text = fmt::format("{}", number);
  const size_t first = text.starts_with('-') ? 1 : 0;
  for (size_t at = text.size(); at > first + 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace headwise
