// Matrix products against their specification, on every SIMD target, and bit for bit between
// threads.
#include "headwise/kernels/gemm.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headwise/core/parallel.h"
#include "kernels/gemm_ref.h"
#include "kernels/op_testing.h"

namespace headwise {
namespace {

/// A sum of products of numbers in [-1, 1] is off by at most (additions on the longest way) · ε/2 ·
/// Σ|ab|. The way is a part of the depth and then the parts; Σ|ab| has a mean of terms/4.
/// Activations have slopes below 1.2 and are good to 8 ulp of a number of the size of the sum.
float tolerance(int64_t terms) {
  const float additions = static_cast<float>(std::min<int64_t>(terms, 384) + terms / 256 + 4);
  const float size = static_cast<float>(terms) / 2 + 4;
  return (1.2f * additions / 2 + 8) * size * std::numeric_limits<float>::epsilon();
}

void expect_near(const Matrix& got, const Matrix& expected, int64_t depth,
                 const std::string& what) {
  const float allowed = tolerance(depth + 3);  // bias, residual and what was there before
  for (int64_t i = 0; i < expected.storage.size(); ++i) {
    ASSERT_NEAR(got.storage[i], expected.storage[i], allowed) << what << " at " << i;
  }
}

class Gemm : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Gemm, testing::ValuesIn(simd_targets()), target_name);

struct Case {
  int64_t m, n, k;
  std::string name() const { return fmt::format("M {} N {} K {}", m, n, k); }
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int64_t m : {0, 1, 2, 3, 5, 7, 17, 33}) {
    for (const int64_t n : {0, 1, 3, 16, 31, 64, 100}) {
      for (const int64_t k : {0, 1, 2, 5, 64, 193, 500}) all.push_back({m, n, k});
    }
  }
  // Past one block of rows, of panels, of depth, and of what gemm packs at a time. The last two are
  // copied: rows that lie 4 KB apart (with the gap that a Matrix has), and strips of columns.
  for (const Case& more :
       {Case{100, 193, 31}, Case{193, 100, 300}, Case{97, 3100, 7}, Case{11, 210, 1100},
        Case{500, 33, 64}, Case{193, 690, 513}, Case{100, 40, 1021}, Case{384, 1300, 640}}) {
    all.push_back(more);
  }
  return all;
}

TEST_P(Gemm, MatchesTheSpecificationForAllShapesAndTransposes) {
  for (const Case& size : cases()) {
    for (const int flips : {0, 1, 2, 3}) {
      const auto& [m, n, k] = size;
      const Matrix a = flips & 1 ? Matrix(k, m, 1) : Matrix(m, k, 1);
      const Matrix b = flips & 2 ? Matrix(n, k, 2) : Matrix(k, n, 2);
      const auto av = flips & 1 ? transposed(a.view) : a.view;
      const auto bv = flips & 2 ? transposed(b.view) : b.view;
      Matrix expected(m, n, 3);
      Matrix got(expected);
      gemm_ref(av, bv, expected.view);
      gemm(av, bv, got.view);
      expect_near(got, expected, k, fmt::format("{} flips {}", size.name(), flips));
    }
  }
}

TEST_P(Gemm, EpiloguesMatchTheSpecification) {
  for (const auto& [m, n, k] :
       {Case{1, 37, 20}, Case{7, 16, 0}, Case{19, 70, 600}, Case{70, 48, 300}}) {
    const Matrix a(m, k, 1), b(k, n, 2), flipped(n, k, 2), bias(1, n, 4), residual(m, n, 5, 1);
    for (int choice = 0; choice < 16; ++choice) {
      for (const Activation activation :
           {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
            Activation::silu, Activation::tanh}) {
        Epilogue epilogue{.accumulate = (choice & 1) != 0, .activation = activation};
        if (choice & 2) epilogue.bias = {bias.view.data(), {n}};
        if (choice & 4) epilogue.residual = residual.view;
        const auto right = choice & 8 ? transposed(flipped.view) : b.view;
        Matrix expected(m, n, 3);
        Matrix got(expected);
        gemm_ref(a.view, right, expected.view, epilogue);
        gemm(a.view, right, got.view, epilogue);
        expect_near(got, expected, k,
                    fmt::format("choice {} activation {}", choice, static_cast<int>(activation)));
      }
    }
  }
}

TEST_P(Gemm, ActivationsAreGoodToAFewUlpOverTheirWholeRange) {
  const int64_t n = 4001;
  Matrix bias(1, n, 1);
  for (int64_t i = 0; i < n; ++i) bias.view(0, i) = 0.01f * static_cast<float>(i - n / 2);
  const View<const float, 2> no_depth(nullptr, {0, n});
  const View<const float, 2> no_columns(nullptr, {1, 0});
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                      Activation::silu, Activation::tanh}) {
    const Epilogue epilogue{.bias = {bias.view.data(), {n}}, .activation = activation};
    Matrix got(1, n, 2), expected(1, n, 2);
    gemm(no_columns, no_depth, got.view, epilogue);
    gemm_ref(no_columns, no_depth, expected.view, epilogue);
    for (int64_t i = 0; i < n; ++i) {
      const float x = std::abs(bias.view(0, i));
      ASSERT_NEAR(got.view(0, i), expected.view(0, i), 8 * x * 0x1p-23f)
          << static_cast<int>(activation) << " of " << bias.view(0, i);
    }
  }
}

TEST_P(Gemm, PackedWeightsGiveTheBitsOfPlainOnes) {
  // The last ones: depths with and without a rest, beyond what gemm packs at a time.
  for (const auto& [m, n, k] :
       {Case{1, 100, 300}, Case{40, 77, 513}, Case{200, 64, 31}, Case{70, 1040, 640},
        Case{70, 1040, 641}, Case{70, 1040, 1152}, Case{70, 1040, 1200}}) {
    const Matrix x(m, k, 1), w(n, k, 2), bias(1, n, 3);
    const Epilogue epilogue{.bias = {bias.view.data(), {n}}, .activation = Activation::gelu};
    Matrix plain(m, n, 4), packed(m, n, 4), conv1d(m, n, 4);
    gemm(x.view, transposed(w.view), plain.view, epilogue);
    linear(x.view, PackedWeights(w.view), packed.view, epilogue);
    EXPECT_TRUE(plain.same_bits(packed));

    Matrix w_in_out(k, n, 5);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < k; ++j) w_in_out.view(j, i) = w.view(i, j);
    }
    linear(x.view, PackedWeights(transposed(w_in_out.view)), conv1d.view, epilogue);
    EXPECT_TRUE(plain.same_bits(conv1d));
  }
}

/// What a 16-bit number is worth, from its definition.
float value(uint16_t bits, WeightType type) {
  const bool bfloat = type == WeightType::bfloat16;
  const int fraction_bits = bfloat ? 7 : 10;
  const int bias = bfloat ? 127 : 15;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits)
                             : std::ldexp(static_cast<float>(fraction + (1 << fraction_bits)),
                                          exponent - bias - fraction_bits);
  if (exponent == 2 * bias + 1) {
    size = fraction == 0 ? std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  return bits & 0x8000 ? -size : size;
}

constexpr WeightType kHalves[] = {WeightType::float16, WeightType::bfloat16};

/// The same random weights [N, K], in [-2, 2], as 16 bits and as floats; rows are apart.
struct HalfWeights {
  HalfWeights(int64_t n, int64_t k, WeightType type)
      : bits(n * (k + 1)), view(bits.data(), {n, k}, {k + 1, 1}), floats(n, k, 1) {
    Random random(7);
    constexpr uint32_t kTwo = 0x4000;  // in both types
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < k; ++j) {
        view(i, j) = static_cast<uint16_t>(random.below(kTwo + 1) | (random.below(2) << 15));
        floats.view(i, j) = value(view(i, j), type);
      }
    }
  }
  AlignedBuffer<uint16_t> bits;
  View<uint16_t, 2> view;
  Matrix floats;
};

TEST_P(Gemm, WeightsOf16BitsGiveTheBitsOfTheSameFloats) {
  for (const WeightType type : kHalves) {
    for (const Case& size : cases()) {
      const auto& [m, n, k] = size;
      const HalfWeights weights(n, k, type);
      const Matrix x(m, k, 1), start(m, n, 3);
      const Epilogue epilogue{.accumulate = true, .activation = Activation::silu};
      Matrix from_floats(start), from_halves(start);
      linear(x.view, PackedWeights(weights.floats.view), from_floats.view, epilogue);
      const PackedWeights packed(weights.view, type);
      EXPECT_EQ(packed.type(), type);
      linear(x.view, packed, from_halves.view, epilogue);
      ASSERT_TRUE(from_halves.same_bits(from_floats)) << size.name();
    }
  }
}

TEST_P(Gemm, WeightsOf16BitsMayBeTransposed) {
  const HalfWeights in_out(50, 33, WeightType::float16);  // as GPT-2's Conv1D stores them
  const Matrix x(9, 50, 1);
  Matrix from_floats(9, 33, 2), from_halves(9, 33, 2);
  linear(x.view, PackedWeights(transposed(in_out.floats.view)), from_floats.view);
  linear(x.view,
         PackedWeights(transposed(View<const uint16_t, 2>(in_out.view)), WeightType::float16),
         from_halves.view);
  EXPECT_TRUE(from_halves.same_bits(from_floats));
}

TEST_P(Gemm, BackwardOfPackedWeightsGivesTheBitsOfPlainOnes) {
  for (const Case& size : cases()) {
    const auto& [m, k, n] = size;  // dx [M, K] = dy [M, N] · W
    const Matrix dy(m, n, 1), w(n, k, 2), start(m, k, 3);
    for (const bool accumulate : {false, true}) {
      Matrix plain(start), packed(start);
      gemm(dy.view, w.view, plain.view, {.accumulate = accumulate});
      linear_backward(dy.view, PackedWeights(w.view), packed.view, accumulate);
      ASSERT_TRUE(plain.same_bits(packed)) << size.name();
    }
    for (const WeightType type : kHalves) {
      const HalfWeights halves(n, k, type);
      Matrix plain(start), packed(start);
      gemm(dy.view, halves.floats.view, plain.view);
      linear_backward(dy.view, PackedWeights(halves.view, type), packed.view);
      ASSERT_TRUE(plain.same_bits(packed)) << size.name();
    }
  }
}

/// All 65536 numbers, each times 1, for as few rows as are multiplied straight from 16 bits and for
/// as many as have them widened first.
TEST_P(Gemm, EveryNumberOf16BitsIsReadRight) {
  const int64_t n = 65536;
  AlignedBuffer<uint16_t> bits(n);
  for (int64_t i = 0; i < n; ++i) bits[i] = static_cast<uint16_t>(i);
  for (const WeightType type : kHalves) {
    const PackedWeights weights(bits.view({n, 1}), type);
    for (const int64_t m : {1, 3, 40}) {
      const Buffer ones(m), out(m * n);
      std::fill_n(ones.data(), m, 1.0f);
      linear(ones.view({m, 1}), weights, out.view({m, n}));
      for (int64_t i = 0; i < m * n; ++i) {
        const float expected = value(static_cast<uint16_t>(i % n), type);
        ASSERT_TRUE(out[i] == expected || (std::isnan(out[i]) && std::isnan(expected)))
            << fmt::format("{:#x}: {} is not {}", i % n, out[i], expected);
      }
    }
  }
}

/// dW += dYᵀ · X, long in K, is the product of training that is transposed.
TEST_P(Gemm, GradientsOfWeightsAreTheSameForAnyNumberOfThreads) {
  for (const auto& [m, n, k] :
       {Case{40, 24, 2000}, Case{260, 70, 1500}, Case{1000, 100, 800}, Case{193, 690, 513}}) {
    const Matrix dy(k, m, 1), x(k, n, 2), start(m, n, 3);
    set_threads(1);
    Matrix once(start), copied(start), expected(start);
    gemm(transposed(dy.view), x.view, once.view, {.accumulate = true});
    Matrix dy_rows(m, k, 4);
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < k; ++c) dy_rows.view(r, c) = dy.view(c, r);
    }
    gemm(dy_rows.view, x.view, copied.view, {.accumulate = true});
    EXPECT_TRUE(once.same_bits(copied));
    gemm_ref(dy_rows.view, x.view, expected.view, {.accumulate = true});
    expect_near(once, expected, k, fmt::format("M {} N {} K {}", m, n, k));
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      Matrix again(start);
      gemm(transposed(dy.view), x.view, again.view, {.accumulate = true});
      EXPECT_TRUE(once.same_bits(again)) << count;
    }
  }
}

TEST_P(Gemm, NeitherThreadsNorOtherRowsChangeABit) {
  const int64_t m = 301, n = 210, k = 700;
  const Matrix x(m, k, 1), w(n, k, 2), start(m, n, 3);
  const PackedWeights weights(w.view);
  const Epilogue epilogue{.accumulate = true, .activation = Activation::silu};
  set_threads(1);
  Matrix once(start);
  linear(x.view, weights, once.view, epilogue);
  for (const int count : {2, 3, 7}) {
    set_threads(count);
    Matrix again(start), plain(start);
    linear(x.view, weights, again.view, epilogue);
    gemm(x.view, transposed(w.view), plain.view, epilogue);
    EXPECT_TRUE(once.same_bits(again)) << count;
    EXPECT_TRUE(once.same_bits(plain)) << count;
  }
  for (const int64_t step : {1, 4, 17, 100}) {
    Matrix pieces(start);
    for (int64_t r = 0; r < m; r += step) {
      const int64_t end = std::min(r + step, m);
      linear(x.view.rows(r, end), weights, pieces.view.rows(r, end), epilogue);
    }
    EXPECT_TRUE(once.same_bits(pieces)) << step;
  }
}

TEST_P(Gemm, NanAndInfinityPropagate) {
  Matrix x(8, 40, 1), w(33, 40, 2);
  x.view(3, 7) = std::numeric_limits<float>::quiet_NaN();
  x.view(5, 11) = std::numeric_limits<float>::infinity();
  for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu,
                                      Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
    Matrix out(8, 33, 3);
    linear(x.view, PackedWeights(w.view), out.view, {.activation = activation});
    for (int64_t n = 0; n < 33; ++n) {
      EXPECT_TRUE(std::isnan(out.view(3, n))) << static_cast<int>(activation);
      EXPECT_TRUE(std::isfinite(out.view(4, n)));
      if (w.view(n, 11) > 0 && activation != Activation::tanh) {
        EXPECT_EQ(out.view(5, n), std::numeric_limits<float>::infinity());
      }
    }
  }
}

TEST_P(Gemm, SumRowsAddsEveryRow) {
  for (const auto& [m, n] : {std::pair{0, 5}, {1, 1}, {3, 70}, {500, 193}}) {
    const Matrix x(m, n, 1);
    Matrix expected(1, n, 2);
    Matrix got(expected), one_thread(expected);
    for (int64_t c = 0; c < n; ++c) {
      double sum = expected.view(0, c);
      for (int64_t r = 0; r < m; ++r) sum += x.view(r, c);
      expected.view(0, c) = static_cast<float>(sum);
    }
    set_threads(3);
    sum_rows(x.view, {got.view.data(), {n}});
    set_threads(1);
    sum_rows(x.view, {one_thread.view.data(), {n}});
    expect_near(got, expected, m, "sum_rows");
    EXPECT_TRUE(got.same_bits(one_thread));
  }
}

TEST(GemmErrors, BadShapesSayWhatWasExpected) {
  const Matrix a(3, 4, 1), b(4, 5, 2), w(5, 4, 3), wrong(6, 7, 4);
  Matrix out(3, 5, 5);
  const PackedWeights weights(w.view);
  expect_error("gemm: the shape", [&] { gemm(a.view, w.view, out.view); });
  expect_error("gemm: the shape", [&] { gemm(a.view, b.view, wrong.view); });
  expect_error("linear: the shape", [&] { linear(wrong.view, weights, out.view); });
  expect_error("linear: the shape", [&] {
    linear(a.view, weights, out.view, {.bias = {wrong.view.data(), {4}}});
  });
  expect_error("linear: the shape",
               [&] { linear(a.view, weights, out.view, {.residual = wrong.view}); });
  expect_error("linear: the residual",
               [&] { linear(a.view, weights, out.view, {.residual = out.view}); });
  expect_error("linear_backward: the shape", [&] { linear_backward(a.view, weights, out.view); });
  expect_error("linear_backward: the shape",
               [&] { linear_backward(out.view, weights, wrong.view); });
  expect_error("gemm: the columns",
               [&] { gemm(transposed(b.view), transposed(a.view), transposed(out.view)); });
  expect_error("PackedWeights: numbers of 16 bits", [&] {
    PackedWeights(View<const uint16_t, 2>(nullptr, {0, 0}), WeightType::float32);
  });
  expect_error("sum_rows: the shape", [&] { sum_rows(a.view, {out.view.data(), {5}}); });
}

}  // namespace
}  // namespace headwise
