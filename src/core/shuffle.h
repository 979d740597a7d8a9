// Values in random order, and some of them at random.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "headwise/core/random.h"

namespace headwise {

/// Every order is as likely as any other (Fisher and Yates).
template <class T>
void permute(std::vector<T>& values, Random& random) {
  for (size_t n = values.size(); n > 1; --n) {
    std::swap(values[n - 1], values[random.below(static_cast<uint32_t>(n))]);
  }
}

/// `count` of the values, or all if there are fewer, in random order.
template <class T>
std::vector<T> draw(std::vector<T> values, int64_t count, Random& random) {
  const auto n = std::ssize(values);
  count = std::min(count, n);
  for (int64_t i = 0; i < count; ++i) {
    std::swap(values[i], values[i + random.below(static_cast<uint32_t>(n - i))]);
  }
  values.resize(count);
  return values;
}

/// `count` of the numbers below n, ascending.
inline std::vector<int64_t> choose_below(int64_t count, int64_t n, Random random) {
  std::vector<int64_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  std::vector<int64_t> chosen = draw(std::move(all), count, random);
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace headwise
