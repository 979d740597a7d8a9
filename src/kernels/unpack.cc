// Reads weights out of the panels of the matmul kernel, a few of their rows at a time.
#include "headwise/kernels/unpack.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "headwise/core/parallel.h"
#include "kernels/gemm_plan.h"
#include "kernels/op_checks.h"

namespace headwise {
namespace {

struct FromFloat32 {
  using Element = float;
  static float number(float value) { return value; }
};

struct FromBfloat16 {
  using Element = uint16_t;
  static float number(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

struct FromFloat16 {
  using Element = uint16_t;
  /// Exponent and fraction moved to where float has them make a number too small by 2^112, also
  /// below the smallest normal one; the largest exponent is that of infinity and NaN.
  static float number(uint16_t bits) {
    const uint32_t magnitude = (uint32_t{bits} & 0x7fff) << 13;
    const uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    const auto number = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
    return std::bit_cast<float>(number | special | (uint32_t{bits} & 0x8000) << 16);
  }
};

/// Rows of one panel, from `first` of it on.
template <class From>
void unpack_panel(const typename From::Element* panel, int64_t first, View<float, 2> out) {
  constexpr int64_t kColumns = 64;  // so that what is read is still there for the next row
  const int64_t rows = out.extent(0), K = out.extent(1);
  for (int64_t begin = 0; begin < K; begin += kColumns) {
    const int64_t end = std::min(begin + kColumns, K);
    for (int64_t row = 0; row < rows; ++row) {
      const typename From::Element* const from = panel + first + row;
      float* const to = &out(row, 0);
      for (int64_t k = begin; k < end; ++k) to[k] = From::number(from[k * kPanel]);
    }
  }
}

template <class From>
void unpack_rows(const PackedWeights& weights, int64_t begin, View<float, 2> out) {
  constexpr int64_t kTogether = 4;
  const auto* const panels = reinterpret_cast<const typename From::Element*>(weights.panels());
  const int64_t end = begin + out.extent(0), first_panel = begin / kPanel;
  const int64_t last_panel = (end + kPanel - 1) / kPanel;
  parallel_panels(last_panel - first_panel, kTogether, [&](int64_t from, int64_t to) {
    for (int64_t panel = first_panel + from; panel < first_panel + to; ++panel) {
      const int64_t row = std::max(begin, panel * kPanel),
                    rest = std::min(end, (panel + 1) * kPanel);
      unpack_panel<From>(panels + panel * kPanel * weights.inputs(), row - panel * kPanel,
                         out.rows(row - begin, rest - begin));
    }
  });
}

}  // namespace

void unpack(const PackedWeights& weights, int64_t begin, View<float, 2> out) {
  check_shape("unpack", "out", out.shape(), {out.extent(0), weights.inputs()});
  check_contiguous_columns("unpack", "out", out);
  if (begin < 0 || begin > weights.outputs() - out.extent(0)) {
    fail("unpack", "these rows are not there", "begin",
         fmt::format("{} to {}", begin, begin + out.extent(0)),
         fmt::format("0 to {}", weights.outputs()));
  }
  if (out.empty()) return;
  switch (weights.type()) {
    case WeightType::float32:
      return unpack_rows<FromFloat32>(weights, begin, out);
    case WeightType::float16:
      return unpack_rows<FromFloat16>(weights, begin, out);
    case WeightType::bfloat16:
      return unpack_rows<FromBfloat16>(weights, begin, out);
  }
}

}  // namespace headwise
