// Compares names letter by letter.
#include "core/closest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace headwise {
namespace {

constexpr size_t kMostChanges = 2;

/// How many letters must be changed, added or left out to make `to` of `from`.
size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view closest_name(std::string_view got, std::span<const std::string_view> names) {
  const auto distance = [&](std::string_view name) { return edit_distance(got, name); };
  const auto nearest = std::ranges::min_element(names, {}, distance);
  return nearest != names.end() && distance(*nearest) <= kMostChanges ? *nearest
                                                                      : std::string_view();
}

}  // namespace headwise
