// Pooling of the hidden states of a text, and its gradient.
#include "model/pooling.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"

namespace headwise {
namespace {

/// In the order of sentence-transformers.
constexpr std::pair<const char*, Pool> kPools[] = {
    {"pooling_mode_cls_token", Pool::cls},
    {"pooling_mode_max_tokens", Pool::max},
    {"pooling_mode_mean_tokens", Pool::mean},
    {"pooling_mode_mean_sqrt_len_tokens", Pool::mean_sqrt},
    {"pooling_mode_weightedmean_tokens", Pool::weighted_mean},
    {"pooling_mode_lasttoken", Pool::last},
};

/// What row i of n counts in the sum of a pooling that is one.
double weight(Pool mode, int64_t i, int64_t n) {
  const auto N = static_cast<double>(n);
  switch (mode) {
    case Pool::cls:
      return i == 0 ? 1 : 0;
    case Pool::last:
      return i == n - 1 ? 1 : 0;
    case Pool::mean:
      return 1 / N;
    case Pool::mean_sqrt:
      return 1 / std::sqrt(N);
    case Pool::weighted_mean:
      return static_cast<double>(i + 1) / (N * (N + 1) / 2);
    case Pool::max:
      break;
  }
  return 0;
}

int64_t largest(View<const float, 2> rows, int64_t column) {
  int64_t at = 0;
  for (int64_t i = 1; i < rows.extent(0); ++i) {
    if (rows(i, column) > rows(at, column)) at = i;
  }
  return at;
}

}  // namespace

std::vector<Pool> read_pooling(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  const nlohmann::json json = read_json(file);
  const JsonObject object(json, file.string());
  std::vector<Pool> modes;
  for (const auto& [name, mode] : kPools) {
    if (object.optional_boolean(name).value_or(false)) modes.push_back(mode);
  }
  if (modes.empty()) {
    throw Error({.what = "no way of pooling is chosen",
                 .where = file.string(),
                 .expected = "one of pooling_mode_cls_token, pooling_mode_mean_tokens and so on"});
  }
  return modes;
}

void pool(View<const float, 2> rows, Pool mode, float* out) {
  const int64_t N = rows.extent(0), C = rows.extent(1);
  if (mode == Pool::max) {
    for (int64_t c = 0; c < C; ++c) out[c] = rows(largest(rows, c), c);
    return;
  }
  std::vector<double> sums(C);
  for (int64_t i = 0; i < N; ++i) {
    const double w = weight(mode, i, N);
    if (w == 0) continue;
    for (int64_t c = 0; c < C; ++c) sums[c] += w * rows(i, c);
  }
  for (int64_t c = 0; c < C; ++c) out[c] = static_cast<float>(sums[c]);
}

void pool_backward(View<const float, 2> rows, Pool mode, const float* dout, View<float, 2> drows) {
  const int64_t N = rows.extent(0), C = rows.extent(1);
  if (mode == Pool::max) {
    for (int64_t c = 0; c < C; ++c) drows(largest(rows, c), c) += dout[c];
    return;
  }
  for (int64_t i = 0; i < N; ++i) {
    const double w = weight(mode, i, N);
    for (int64_t c = 0; c < C; ++c) drows(i, c) += static_cast<float>(w * dout[c]);
  }
}

}  // namespace headwise
