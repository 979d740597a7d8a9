// Checks shared by ops on matrices, and how they share rows among threads.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/core/view.h"

namespace headwise {

[[noreturn]] inline void fail(const char* op, const char* what, std::string where, std::string got,
                              std::string expected, const char* hint = "") {
  throw Error({.what = fmt::format("{}: {}", op, what),
               .where = std::move(where),
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = hint});
}

template <size_t R>
void check_shape(const char* op, const char* where, const std::array<int64_t, R>& got,
                 const std::array<int64_t, R>& expected) {
  if (got != expected) {
    fail(op, "the shape does not fit", where, to_string(got), to_string(expected));
  }
}

template <class T, int R>
void check_contiguous_columns(const char* op, const char* where, View<T, R> view) {
  if (view.extent(R - 1) > 1 && view.stride(R - 1) != 1) {
    fail(op, "the columns are not contiguous", where,
         fmt::format("a stride of {}", view.stride(R - 1)), "a stride of 1");
  }
}

template <class T, int R>
void check_rows(const char* op, const char* where, View<T, R> view,
                const typename View<T, R>::Extents& expected) {
  check_shape(op, where, view.shape(), expected);
  check_contiguous_columns(op, where, view);
}

/// How many rows are worth a thread's while in an op that does little with each element.
constexpr int64_t rows_per_item(int64_t columns) {
  constexpr int64_t kElements = 32768;
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, columns));
}

}  // namespace headwise
