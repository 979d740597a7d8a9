// Rotary position embedding: the table, checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/rotary.h"

#include <cmath>

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/rotary-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(rotate_heads);

void check(const char* op, View<float, 3> x, std::span<const int64_t> positions,
           const RotaryTable& table) {
  check_contiguous_columns(op, "x", x);
  check_shape(op, "positions", std::array{static_cast<int64_t>(positions.size())}, {x.extent(0)});
  if (x.extent(2) < table.width()) {
    fail(op, "the head is narrower than the rotation", "x", fmt::format("{} columns", x.extent(2)),
         fmt::format("at least {}", table.width()));
  }
  for (size_t t = 0; t < positions.size(); ++t) {
    if (positions[t] >= 0 && positions[t] < table.positions()) continue;
    fail(op, "the position is outside the table", fmt::format("positions[{}]", t),
         fmt::format("{}", positions[t]), fmt::format("0 to {}", table.positions() - 1),
         "make the table for as many positions as the longest sequence has");
  }
}

void turn(const char* op, View<float, 3> x, std::span<const int64_t> positions,
          const RotaryTable& table, float direction) {
  check(op, x, positions, table);
  if (x.empty() || table.width() == 0) return;
  const auto [rows, heads, columns] = x.shape();
  const auto cosines = table.cosines(), sines = table.sines();
  parallel_panels(rows, rows_per_item(heads * columns), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const View<float, 2> row(&x(t, 0, 0), {x.extent(1), x.extent(2)}, {x.stride(1), x.stride(2)});
      HWY_DYNAMIC_DISPATCH(rotate_heads)
      (row, &cosines(positions[t], 0), &sines(positions[t], 0), table.width() / 2, direction);
    }
  });
}

}  // namespace

RotaryTable::RotaryTable(int64_t positions, std::span<const float> inverse_frequencies,
                         double attention_factor)
    : positions_(positions),
      pairs_(static_cast<int64_t>(inverse_frequencies.size())),
      cosines_(checked_mul(positions_, pairs_)),
      sines_(checked_mul(positions_, pairs_)) {
  constexpr int64_t kPositionsPerItem = 64;
  parallel_panels(positions_, kPositionsPerItem, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < pairs_; ++i) {
        const double angle = static_cast<float>(p) * inverse_frequencies[i];
        cosines_[p * pairs_ + i] = static_cast<float>(attention_factor * std::cos(angle));
        sines_[p * pairs_ + i] = static_cast<float>(attention_factor * std::sin(angle));
      }
    }
  });
}

void rotate(View<float, 3> x, std::span<const int64_t> positions, const RotaryTable& table) {
  turn("rotate", x, positions, table, 1);
}

void rotate_back(View<float, 3> x, std::span<const int64_t> positions, const RotaryTable& table) {
  turn("rotate_back", x, positions, table, -1);
}

}  // namespace headwise
#endif  // HWY_ONCE
