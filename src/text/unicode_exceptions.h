// Code points whose properties differ between utf8proc and the `tokenizers` package.
#pragma once

#include <cstdint>
#include <span>

#include "text/unicode.h"

namespace headwise::text {

struct CodePointRange {
  char32_t first, last;
};

struct FlagException {
  CharFlag flag;
  bool set;  // the range has the flag, or does not have it
  std::span<const CodePointRange> ranges;
};

std::span<const FlagException> flag_exceptions();
std::span<const CodePointRange> class_zero_exceptions();    // combining class 0
std::span<const CodePointRange> undecomposed_exceptions();  // no decomposition

}  // namespace headwise::text
