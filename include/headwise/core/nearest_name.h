// The name that was meant, for "did you mean" in messages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headwise {

/// How many letters must be changed, added or left out to make `to` of `from`.
inline size_t edit_distance(std::string_view from, std::string_view to) {
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

/// "did you mean NAME?" for the nearest of the names, if at most two letters differ and not all of
/// them do; else nothing.
template <std::ranges::forward_range Names>
std::string did_you_mean(std::string_view got, const Names& names) {
  std::string_view nearest;
  size_t least = 3;
  for (const std::string_view name : names) {
    const size_t distance = edit_distance(got, name);
    if (distance >= least || distance >= name.size()) continue;
    least = distance;
    nearest = name;
  }
  return least > 2 ? "" : "did you mean " + std::string(nearest) + "?";
}

}  // namespace headwise
