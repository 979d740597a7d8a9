// Fixed attention patterns. Heads with such a pattern have no queries and no keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "headwise/kernels/attention.h"

namespace headwise {

/// What a row of a fixed head attends to. Where there is no such token, the head output is 0.
struct FixedPattern {
  enum class Kind {
    previous,  // the token before it
    next,      // the token after it
    first,     // the first token of the text
    window,    // `size` tokens around it, itself included; under a causal mask the last ones
  };
  Kind kind = Kind::first;
  int64_t size = 1;  // of a window

  bool operator==(const FixedPattern&) const = default;
};

/// "previous", "next", "first", "window(3)"; none for anything else.
std::optional<FixedPattern> parse_fixed_pattern(std::string_view text);
std::string to_string(const FixedPattern& pattern);

/// The keys that a pattern lets a row see.
AttentionMask mask_of(const FixedPattern& pattern, bool causal);

}  // namespace headwise
