// Compares lists of nearest texts.
#include "plan/neighbours.h"

#include <algorithm>
#include <numeric>

#include "headwise/core/parallel.h"

namespace headwise {
namespace {

std::vector<int64_t> nearest(std::span<const std::vector<float>> embeddings, int64_t text,
                             int64_t of) {
  const auto n = std::ssize(embeddings);
  std::vector<double> cosines(n);
  for (int64_t i = 0; i < n; ++i) {
    cosines[i] = std::inner_product(embeddings[i].begin(), embeddings[i].end(),
                                    embeddings[text].begin(), 0.);
  }
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) {
    if (i != text) order.push_back(i);
  }
  std::ranges::stable_sort(order, std::ranges::greater(), [&](int64_t i) { return cosines[i]; });
  order.resize(of);
  std::ranges::sort(order);
  return order;
}

}  // namespace

double kept_neighbours(std::span<const std::vector<float>> before,
                       std::span<const std::vector<float>> after, int64_t of) {
  const auto n = std::ssize(before);
  std::vector<int64_t> kept(n);
  parallel_for(n, [&](int64_t text) {
    const std::vector<int64_t> a = nearest(before, text, of), b = nearest(after, text, of);
    std::vector<int64_t> both;
    std::ranges::set_intersection(a, b, std::back_inserter(both));
    kept[text] = std::ssize(both);
  });
  return static_cast<double>(std::accumulate(kept.begin(), kept.end(), int64_t{0})) /
         static_cast<double>(n);
}

}  // namespace headwise
