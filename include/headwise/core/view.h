// Non-owning views of strided arrays. Every op takes and returns them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace headwise {

/// R-dimensional view with one stride per dimension, counted in elements. Copying copies the view.
template <class T, int R>
class View {
 public:
  using Extents = std::array<int64_t, R>;
  using Strides = std::array<ptrdiff_t, R>;

  View() = default;

  /// Row-major and contiguous.
  View(T* data, Extents shape) : data_(data), shape_(shape) {
    ptrdiff_t stride = 1;
    for (int r = R; r-- > 0; stride *= shape[r]) stride_[r] = stride;
  }
  View(T* data, Extents shape, Strides stride) : data_(data), shape_(shape), stride_(stride) {}

  /// A view of T is also a view of const T.
  operator View<const T, R>() const  // NOLINT: conversion is meant to be silent
    requires(!std::is_const_v<T>)
  {
    return {data_, shape_, stride_};
  }

  T* data() const { return data_; }
  const Extents& shape() const { return shape_; }
  const Strides& strides() const { return stride_; }
  int64_t extent(int r) const { return shape_[r]; }
  ptrdiff_t stride(int r) const { return stride_[r]; }
  bool empty() const {
    for (const int64_t n : shape_) {
      if (n == 0) return true;
    }
    return false;
  }

  template <class... Index>
    requires(sizeof...(Index) == R)
  T& operator()(Index... index) const {
    int r = 0;
    ptrdiff_t offset = 0;
    ((offset += static_cast<ptrdiff_t>(index) * stride_[r++]), ...);
    return data_[offset];
  }

  /// Rows [begin, end) of the first dimension.
  View rows(int64_t begin, int64_t end) const {
    View part = *this;
    part.data_ += begin * stride_[0];
    part.shape_[0] = end - begin;
    return part;
  }

 private:
  T* data_ = nullptr;
  Extents shape_{};
  Strides stride_{};
};

/// The transposed matrix, without a copy.
template <class T>
View<T, 2> transposed(View<T, 2> matrix) {
  return {
      matrix.data(), {matrix.extent(1), matrix.extent(0)}, {matrix.stride(1), matrix.stride(0)}};
}

}  // namespace headwise
