// Arrays of NumPy and of whoever speaks DLPack, as views and back.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "headwise/core/view.h"

namespace headwise::python {

namespace nb = nanobind;

/// An array on the CPU with any strides.
template <class T, int R>
using Array = nb::ndarray<T, nb::ndim<R>, nb::device::cpu>;
/// Without gaps, because it becomes a span.
template <class T>
using List = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Maybe = std::optional<T>;

template <int R, class... Parts>
auto view(const nb::ndarray<Parts...>& array) {
  std::array<int64_t, R> shape{};
  std::array<ptrdiff_t, R> strides{};
  for (int r = 0; r < R; ++r) {
    shape[r] = static_cast<int64_t>(array.shape(r));
    strides[r] = array.stride(r);
  }
  return View<typename nb::ndarray<Parts...>::Scalar, R>(array.data(), shape, strides);
}

template <int R, class Array>
auto view(const Maybe<Array>& array) {
  return array ? view<R>(*array) : decltype(view<R>(*array))();
}

template <class T>
std::span<T> span(const List<T>& list) {
  return {list.data(), list.shape(0)};
}

template <class T>
std::span<T> span(const Maybe<List<T>>& list) {
  return list ? span(*list) : std::span<T>();
}

/// A NumPy array that owns these values, in row-major order.
template <class T>
nb::object to_numpy(std::vector<T> values, std::vector<size_t> shape) {
  auto* const kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
}

/// The values of a view in row-major order.
template <class T, int R>
std::vector<float> values_of(const View<T, R>& from) {
  std::vector<float> values;
  if constexpr (R == 2) {
    values.reserve(from.extent(0) * from.extent(1));
    for (int64_t i = 0; i < from.extent(0); ++i) {
      for (int64_t j = 0; j < from.extent(1); ++j) values.push_back(from(i, j));
    }
  } else {
    values.reserve(from.extent(0) * from.extent(1) * from.extent(2));
    for (int64_t i = 0; i < from.extent(0); ++i) {
      for (int64_t j = 0; j < from.extent(1); ++j) {
        for (int64_t k = 0; k < from.extent(2); ++k) values.push_back(from(i, j, k));
      }
    }
  }
  return values;
}

}  // namespace headwise::python
