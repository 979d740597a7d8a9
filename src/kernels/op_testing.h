// What tests of ops on matrices share: matrices with guarded gaps, every SIMD target, errors.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "headwise/core/buffer.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/kernels/simd.h"

namespace headwise {

inline constexpr double kUlp = std::numeric_limits<float>::epsilon();
inline constexpr float kGuard = 12345.0f;  // fills what lies between rows: must stay as it is

/// A matrix whose rows are `gap` elements apart, filled with numbers in [-1, 1).
struct Matrix {
  Matrix(int64_t rows, int64_t columns, uint64_t seed, int64_t gap = 3)
      : storage(rows * (columns + gap)),
        view(storage.data(), {rows, columns}, {columns + gap, int64_t{1}}) {
    std::fill_n(storage.data(), storage.size(), kGuard);
    Random random(seed);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) view(r, c) = 2 * random.uniform() - 1;
    }
  }
  Matrix(const Matrix& other) : storage(other.storage.size()), view(other.view) {
    std::copy_n(other.storage.data(), storage.size(), storage.data());
    view = {storage.data(), view.shape(), view.strides()};
  }
  bool same_bits(const Matrix& other) const {
    return storage.size() == 0 ||
           std::memcmp(storage.data(), other.storage.data(), storage.size() * sizeof(float)) == 0;
  }
  bool gaps_untouched() const {
    const auto [rows, columns] = view.shape();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = columns; c < view.stride(0); ++c) {
        if (storage[r * view.stride(0) + c] != kGuard) return false;
      }
    }
    return true;
  }

  Buffer storage;
  View<float, 2> view;
};

/// A test that runs on the SIMD target that is its parameter.
class OnEveryTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override {
    set_simd_target("");
    set_threads(2);
  }
};

inline std::string target_name(const ::testing::TestParamInfo<std::string>& info) {
  return info.param;
}

/// Calls `call`, which must throw an Error that begins with `start` and says got and expected.
template <class Call>
void expect_error(const std::string& start, const Call& call) {
  try {
    call();
    ADD_FAILURE() << "no error: " << start;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::StartsWith(start));
    EXPECT_FALSE(error.detail().got.empty());
    EXPECT_FALSE(error.detail().expected.empty());
  }
}

}  // namespace headwise
