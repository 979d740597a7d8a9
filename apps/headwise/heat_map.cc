// Draws heat maps.
#include "heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace headwise::program {
namespace {

constexpr int64_t kLabel = 14, kNarrow = 3, kWide = 7;

/// From dark violet to yellow, evenly bright to the eye (viridis).
Rgb shade(double share) {
  static constexpr std::array<Rgb, 5> kStops = {
      Rgb{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
  const double at = std::clamp(share, 0., 1.) * (kStops.size() - 1);
  const auto low = std::min<size_t>(static_cast<size_t>(at), kStops.size() - 2);
  const double part = at - static_cast<double>(low);
  const Rgb &a = kStops[low], &b = kStops[low + 1];
  return {a.red + part * (b.red - a.red), a.green + part * (b.green - a.green),
          a.blue + part * (b.blue - a.blue)};
}

std::string colored(const std::string& cell, float weight, Color color) {
  const double share = std::sqrt(std::clamp<double>(weight, 0, 1));  // small weights show, too
  return painted(cell, shade(share), share > 0.6, color);
}

/// Without the mark for a space in front, where there is no room for it.
std::string_view unmarked(std::string_view token, int64_t room) {
  if (static_cast<int64_t>(display_width(token)) <= room) return token;
  for (const std::string_view mark : {"▁", "Ġ", "##"}) {
    if (token.starts_with(mark)) return token.substr(mark.size());
  }
  return token;
}

/// The beginning of a text, `most` columns of it at most.
std::string cut(std::string_view text, int64_t most) {
  std::string result;
  for (size_t at = 0; at < text.size() && most > 0; --most) {
    do {
      result += text[at++];
    } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return result;
}

std::string right(std::string_view text, int64_t width) {
  const std::string shown = cut(text, width);
  return std::string(width - display_width(shown), ' ') + shown;
}

std::string cell_text(float weight, int64_t width) {
  const char* const point = "·";
  if (weight == 0) return std::string(width, ' ');
  if (weight < 0.005f) return right(point, width);
  return fmt::format("{:>{}}", std::min(width > 3 ? 100L : 99L, std::lround(100 * weight)), width);
}

int64_t widest(std::span<const std::string> texts) {
  size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, display_width(text));
  return static_cast<int64_t>(width);
}

}  // namespace

std::string draw(const HeatMap& map, Color color, int64_t width) {
  const int64_t N = map.weights.extent(0), M = map.weights.extent(1);
  const int64_t label = std::min(kLabel, widest(map.rows)) + 1;
  const int64_t room = std::max(width - label, kNarrow);
  const int64_t wanted = std::clamp(widest(map.columns) + 1, kNarrow, kWide);
  const int64_t cell = std::clamp(M == 0 ? kNarrow : room / M, kNarrow, wanted);
  const int64_t columns = std::min(M, room / cell);
  const int64_t rows = map.square ? std::min(N, columns) : N;
  std::string text(label, ' ');
  for (int64_t j = 0; j < columns; ++j)
    text += " " + right(unmarked(map.columns[j], cell - 1), cell - 1);
  text += '\n';
  for (int64_t i = 0; i < rows; ++i) {
    text += right(map.rows[i], label - 1) + " ";
    for (int64_t j = 0; j < columns; ++j) {
      text += colored(cell_text(map.weights(i, j), cell), map.weights(i, j), color);
    }
    text += '\n';
  }
  if (columns < M) {
    text += fmt::format(
        "{}the first {} of {} tokens; a wider terminal shows more, -o FILE.npy has all\n",
        std::string(label, ' '), columns, M);
  }
  return text;
}

}  // namespace headwise::program
