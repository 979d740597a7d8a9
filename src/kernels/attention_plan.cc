// Checks an attention problem and resolves its defaults.
#include "kernels/attention_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <tuple>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "kernels/attention_random.h"

namespace headwise {
namespace {

constexpr int64_t kFar = int64_t{1} << 30;  // farther than any key
constexpr int64_t kMaxWidth = 8192;  // a thread's working memory grows with it: 8 MB per 1024
constexpr int64_t kMaxDistances = int64_t{1} << 26;  // that are laid out in a line

[[noreturn]] void refuse(std::string what, std::string got, std::string expected,
                         std::string hint = {}) {
  throw Error({.what = "attention: " + std::move(what),
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

template <class Shape>
std::string text(const Shape& shape) {
  return to_string(std::span<const int64_t>(shape));
}

void check_offsets(const char* name, std::span<const int64_t> offsets, int64_t rows) {
  if (offsets.empty()) {
    refuse(fmt::format("{} are missing", name), "none", "one per sequence and one more",
           "for one sequence pass {0, rows}");
  }
  if (offsets.front() != 0 || offsets.back() != rows) {
    refuse(fmt::format("{} do not cover the rows", name),
           fmt::format("{} … {}", offsets.front(), offsets.back()), fmt::format("0 … {}", rows),
           "one offset per sequence where its rows begin, and the number of rows at the end");
  }
  for (size_t b = 1; b < offsets.size(); ++b) {
    if (offsets[b] < offsets[b - 1]) {
      refuse(fmt::format("{} descend", name),
             fmt::format("{} after {} at index {}", offsets[b], offsets[b - 1], b),
             "offsets that never descend");
    }
  }
}

void check_lengths(const char* name, std::span<const int64_t> lengths,
                   std::span<const int64_t> offsets) {
  if (lengths.empty()) return;
  if (lengths.size() + 1 != offsets.size()) {
    refuse(fmt::format("{} are not one per sequence", name), fmt::format("{}", lengths.size()),
           fmt::format("{}", offsets.size() - 1));
  }
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int64_t rows = offsets[b + 1] - offsets[b];
    if (lengths[b] < 0 || lengths[b] > rows) {
      refuse(fmt::format("{} of sequence {} is out of range", name, b),
             fmt::format("{}", lengths[b]), fmt::format("0 to {}", rows));
    }
  }
}

void require_finite(const char* name, float value) {
  if (std::isfinite(value)) return;
  refuse(fmt::format("{} is not finite", name), fmt::format("{}", value), "a number");
}

void check_probability(const char* name, float p, bool may_be_one) {
  if (p >= 0 && (p < 1 || (may_be_one && p == 1))) return;
  refuse(fmt::format("{} is out of range", name), fmt::format("{}", p),
         may_be_one ? "0 to 1" : "at least 0 and below 1");
}

}  // namespace

AttentionPlan::AttentionPlan(const Attention& attention)
    : problem(attention),
      T(attention.q.extent(0)),
      S(attention.k.extent(0)),
      H(attention.q.extent(1)),
      K(attention.k.extent(1)),
      D(attention.q.extent(2)),
      Dv(attention.v.extent(2)) {
  check_shapes();
  check_arithmetic();
  scale = problem.scale.value_or(1.0f / std::sqrt(static_cast<float>(D)));
  const AttentionMask& mask = problem.mask;
  left_ = mask.left == kUnlimited ? kFar : std::min(mask.left, kFar) - mask.shift;
  right_ = mask.right == kUnlimited ? kFar : std::min(mask.right, kFar) + mask.shift;
  if (mask.causal) right_ = std::min<int64_t>(right_, 0);
  first_keys_ = mask.first_keys == kUnlimited ? kFar : mask.first_keys;
  lay_out_sequences();
  check_dense_bias();
  group_heads();
  draw_heads();
  lay_out_bias();
}

void AttentionPlan::check_shapes() {
  const auto& [q, k, v] = std::tie(problem.q, problem.k, problem.v);
  if (k.extent(2) != D || v.extent(0) != S || v.extent(1) != K) {
    refuse("the shapes of q, k and v do not fit",
           fmt::format("q {}, k {}, v {}", text(q.shape()), text(k.shape()), text(v.shape())),
           "q [T, H, D], k [S, K, D], v [S, K, Dv]");
  }
  const auto missing = [](const auto& view) { return view.data() == nullptr && !view.empty(); };
  if (missing(q) || missing(k) || missing(v)) {
    refuse("q, k or v has no data", "a null pointer", "numbers to read");
  }
  if (H > 0 && (D < 1 || D > kMaxWidth || Dv < 1 || Dv > kMaxWidth)) {
    refuse("the head width is out of range", fmt::format("D = {}, Dv = {}", D, Dv),
           fmt::format("1 to {}", kMaxWidth));
  }
  const auto k_offsets = problem.k_offsets.empty() ? problem.q_offsets : problem.k_offsets;
  check_offsets("q_offsets", problem.q_offsets, T);
  check_offsets("k_offsets", k_offsets, S);
  if (k_offsets.size() != problem.q_offsets.size()) {
    refuse("queries and keys have different numbers of sequences",
           fmt::format("{} and {}", problem.q_offsets.size() - 1, k_offsets.size() - 1),
           "the same number");
  }
  check_lengths("q_lengths", problem.q_lengths, problem.q_offsets);
  check_lengths("k_lengths", problem.k_lengths, k_offsets);
  B = static_cast<int64_t>(problem.q_offsets.size()) - 1;
  if (!problem.positions.empty() && static_cast<int64_t>(problem.positions.size()) != T) {
    refuse("positions are not one per row", fmt::format("{}", problem.positions.size()),
           fmt::format("{}", T));
  }
  for (const int64_t position : problem.positions) {
    if (position < -kFar || position > kFar) {
      refuse("a position is out of range", fmt::format("{}", position),
             fmt::format("{} to {}", -kFar, kFar));
    }
  }
  if (problem.gates.data() != nullptr) {
    const int64_t rows = problem.gate_scope == GateScope::kHead       ? 1
                         : problem.gate_scope == GateScope::kSequence ? B
                                                                      : T;
    if (problem.gates.extent(0) != rows || problem.gates.extent(1) != H) {
      refuse("the shape of the gates does not fit their scope", text(problem.gates.shape()),
             fmt::format("[{}, {}]", rows, H));
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t h = 0; h < H; ++h) {
        if (!std::isfinite(problem.gates(i, h))) {
          refuse(fmt::format("gate ({}, {}) is not finite", i, h),
                 fmt::format("{}", problem.gates(i, h)), "a number");
        }
      }
    }
  }
}

void AttentionPlan::check_arithmetic() const {
  check_probability("dropout", problem.dropout, false);
  check_probability("head_dropout", problem.head_dropout, true);
  if (!(problem.softcap >= 0) || !std::isfinite(problem.softcap)) {
    refuse("softcap is out of range", fmt::format("{}", problem.softcap), "0 (off) or more");
  }
  if (problem.scale) require_finite("the scale", *problem.scale);
  const AttentionMask& mask = problem.mask;
  if (std::min({mask.left, mask.right, mask.first_keys}) < kUnlimited) {
    refuse("a window is negative",
           fmt::format("left {}, right {}, first_keys {}", mask.left, mask.right, mask.first_keys),
           "0 or more, or kUnlimited");
  }
  if (mask.shift < -kFar || mask.shift > kFar) {
    refuse("a window is shifted too far", fmt::format("{}", mask.shift),
           fmt::format("{} to {}", -kFar, kFar));
  }
  const auto& slopes = problem.alibi_slopes;
  if (!slopes.empty() && static_cast<int64_t>(slopes.size()) != H) {
    refuse("ALiBi slopes are not one per head", fmt::format("{}", slopes.size()),
           fmt::format("{}", H));
  }
  for (const float slope : slopes) require_finite("an ALiBi slope", slope);
  const auto& sinks = problem.sinks;
  if (!sinks.empty() && static_cast<int64_t>(sinks.size()) != H) {
    refuse("sinks are not one per head", fmt::format("{}", sinks.size()), fmt::format("{}", H));
  }
  for (const float sink : sinks) require_finite("a sink", sink);
  const RelativeBias& relative = problem.relative_bias;
  if (relative.table.data() == nullptr) return;
  if (relative.table.extent(0) != H) {
    refuse("the relative bias table does not have one row per head", text(relative.table.shape()),
           fmt::format("[{}, R]", H));
  }
  if (relative.buckets.size() % 2 == 0) {
    refuse("the number of buckets' distances is even", fmt::format("{}", relative.buckets.size()),
           "2 * reach + 1");
  }
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t r = 0; r < relative.table.extent(1); ++r) {
      require_finite("a relative bias", relative.table(h, r));
    }
  }
  for (const int32_t bucket : relative.buckets) {
    if (bucket < 0 || bucket >= relative.table.extent(1)) {
      refuse("a bucket is outside the relative bias table", fmt::format("{}", bucket),
             fmt::format("0 to {}", relative.table.extent(1) - 1));
    }
  }
}

void AttentionPlan::lay_out_sequences() {
  const auto& q = problem.q_offsets;
  const auto& k = problem.k_offsets.empty() ? q : problem.k_offsets;
  sequences.reserve(B);
  for (int64_t b = 0; b < B; ++b) {
    const int64_t n = q[b + 1] - q[b], m = k[b + 1] - k[b];
    if (std::max(n, m) > kFar) {
      refuse("a sequence is too long", fmt::format("{} rows", std::max(n, m)),
             fmt::format("at most {}", kFar));
    }
    sequences.push_back({q[b], n, problem.q_lengths.empty() ? n : problem.q_lengths[b], k[b], m,
                         problem.k_lengths.empty() ? m : problem.k_lengths[b]});
  }
}

void AttentionPlan::check_dense_bias() const {
  const View<const float, 4>& bias = problem.bias;
  if (bias.data() == nullptr) return;
  int64_t rows = 0, keys = 0;
  for (const SequenceRows& sequence : sequences) {
    rows = std::max(rows, sequence.q_rows);
    keys = std::max(keys, sequence.k_rows);
  }
  if (bias.extent(0) != B || bias.extent(1) != H || bias.extent(2) < rows ||
      bias.extent(3) < keys) {
    refuse("the shape of the bias does not fit", text(bias.shape()),
           fmt::format("[{}, {}, {} or more, {} or more]", B, H, rows, keys));
  }
  if (bias.extent(3) > 1 && bias.stride(3) != 1) {
    refuse("the bias has gaps between the keys", fmt::format("a stride of {}", bias.stride(3)),
           "1");
  }
}

void AttentionPlan::group_heads() {
  const auto& map = problem.kv_head;
  if (map.empty() && H > 0 && (K == 0 || H % K != 0)) {
    refuse("the query heads do not divide among the key/value heads",
           fmt::format("{} query heads, {} key/value heads", H, K), "a multiple",
           "pass kv_head for uneven groups");
  }
  if (!map.empty() && static_cast<int64_t>(map.size()) != H) {
    refuse("kv_head is not one per query head", fmt::format("{}", map.size()),
           fmt::format("{}", H));
  }
  query_heads.resize(K);
  for (int64_t h = 0; h < H; ++h) {
    const int64_t kv = map.empty() ? h * K / H : map[h];
    if (kv < 0 || kv >= K) {
      refuse(fmt::format("kv_head of head {} is out of range", h), fmt::format("{}", kv),
             fmt::format("0 to {}", K - 1));
    }
    query_heads[kv].push_back(static_cast<int32_t>(h));
  }
}

void AttentionPlan::draw_heads() {
  if (problem.head_dropout == 0) return;
  const uint64_t threshold = dropout_threshold(problem.head_dropout);
  const float kept = 1 / (1 - problem.head_dropout);
  head_scale_.resize(B * H);
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      head_scale_[b * H + h] = head_word(problem.seed, b, h) < threshold ? 0 : kept;
    }
  }
}

Interval AttentionPlan::visible(const SequenceRows& sequence, int32_t position) const {
  const int64_t keys = std::min(sequence.k_real, first_keys_);
  return {static_cast<int32_t>(std::clamp<int64_t>(position - left_, 0, keys)),
          static_cast<int32_t>(std::clamp<int64_t>(position + right_ + 1, 0, keys))};
}

float AttentionPlan::problem_gate(int64_t b, int64_t t, int64_t h) const {
  if (problem.gates.data() == nullptr) return 1;
  switch (problem.gate_scope) {
    case GateScope::kHead:
      return problem.gates(0, h);
    case GateScope::kSequence:
      return problem.gates(b, h);
    case GateScope::kRow:
      return problem.gates(t, h);
  }
  return 1;
}

int32_t AttentionPlan::bucket(int64_t distance) const {
  const auto& buckets = problem.relative_bias.buckets;
  const int64_t reach = static_cast<int64_t>(buckets.size()) / 2;
  return buckets[std::clamp(distance, -reach, reach) + reach];
}

void AttentionPlan::span_distances() {
  if (distance_stride_ > 0) return;
  int64_t nearest = 0, farthest = 0;
  for (const SequenceRows& sequence : sequences) {
    for (int64_t i = 0; i < sequence.q_real; ++i) {
      const int32_t p = position(sequence, i);
      const Interval keys = visible(sequence, p);
      if (keys.empty()) continue;
      nearest = std::min<int64_t>(nearest, int64_t{keys.begin} - p);
      farthest = std::max<int64_t>(farthest, int64_t{keys.end} - 1 - p);
    }
  }
  constexpr int64_t kSlack = 32;  // vectors are loaded whole
  min_distance_ = nearest - kSlack;
  max_distance_ = farthest + kSlack;
  distance_stride_ = max_distance_ - min_distance_ + 1;
  if (distance_stride_ > kMaxDistances) {
    refuse("positions are too far from the keys they see",
           fmt::format("{} distances", distance_stride_), fmt::format("at most {}", kMaxDistances));
  }
}

void AttentionPlan::lay_out_bias() {
  const bool table = problem.relative_bias.table.data() != nullptr;
  const bool alibi = !problem.alibi_slopes.empty();
  if (!table && !alibi) return;
  span_distances();
  bias_ = Buffer(checked_mul(H, distance_stride_));
  for (int64_t h = 0; h < H; ++h) {
    float* const line = bias_.data() + h * distance_stride_ - min_distance_;
    for (int64_t d = min_distance_; d <= max_distance_; ++d) {
      double value = 0;
      if (table) value += problem.relative_bias.table(h, bucket(d));
      if (alibi) value -= double{problem.alibi_slopes[h]} * static_cast<double>(std::abs(d));
      line[d] = static_cast<float>(std::max(value * std::numbers::log2e, double{kLeastBias}));
    }
  }
}

void AttentionPlan::need_distances() {
  span_distances();
  distance_ = Buffer(distance_stride_);
  for (int64_t d = min_distance_; d <= max_distance_; ++d) {
    distance_[d - min_distance_] = static_cast<float>(std::abs(d));
  }
}

}  // namespace headwise
