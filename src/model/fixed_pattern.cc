// Patterns of attention as text and as masks.
#include "headwise/model/fixed_pattern.h"

#include <fmt/format.h>

#include <charconv>

namespace headwise {
namespace {

constexpr int64_t kWidestWindow = 1 << 20;

}  // namespace

std::optional<FixedPattern> parse_fixed_pattern(std::string_view text) {
  using Kind = FixedPattern::Kind;
  if (text == "previous") return FixedPattern{.kind = Kind::previous};
  if (text == "next") return FixedPattern{.kind = Kind::next};
  if (text == "first") return FixedPattern{.kind = Kind::first};
  constexpr std::string_view kBegin = "window(";
  if (!text.starts_with(kBegin) || !text.ends_with(')')) return {};
  text = text.substr(kBegin.size(), text.size() - kBegin.size() - 1);
  FixedPattern window{.kind = Kind::window};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), window.size);
  const bool whole = failed == std::errc() && end == text.data() + text.size();
  if (!whole || window.size < 1 || window.size > kWidestWindow) return {};
  return window;
}

std::string to_string(const FixedPattern& pattern) {
  switch (pattern.kind) {
    case FixedPattern::Kind::previous:
      return "previous";
    case FixedPattern::Kind::next:
      return "next";
    case FixedPattern::Kind::first:
      return "first";
    case FixedPattern::Kind::window:
      return fmt::format("window({})", pattern.size);
  }
  return "";
}

AttentionMask mask_of(const FixedPattern& pattern, bool causal) {
  AttentionMask mask{.causal = causal};
  switch (pattern.kind) {
    case FixedPattern::Kind::previous:
    case FixedPattern::Kind::next:
      mask.left = mask.right = 0;
      mask.shift = pattern.kind == FixedPattern::Kind::previous ? -1 : 1;
      break;
    case FixedPattern::Kind::first:
      mask.first_keys = 1;
      break;
    case FixedPattern::Kind::window:
      mask.left = causal ? pattern.size - 1 : pattern.size / 2;
      mask.right = (pattern.size - 1) / 2;
      break;
  }
  return mask;
}

}  // namespace headwise
