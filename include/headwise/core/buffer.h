// An owned, 64-byte aligned array of numbers. All memory for numbers is allocated through it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>

#include "headwise/core/shape.h"
#include "headwise/core/view.h"

namespace headwise {

inline constexpr size_t kAlignment = 64;

/// Freed with std::free; null for size 0. Throws std::bad_alloc.
void* allocate_aligned(size_t bytes);

/// Move-only; what it holds is uninitialised unless made by zeros().
template <class T>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t size)
      : data_(static_cast<T*>(allocate_aligned(byte_count(std::array{size}, sizeof(T))))),
        size_(size) {}

  static AlignedBuffer zeros(int64_t size) {
    AlignedBuffer buffer(size);
    std::fill_n(buffer.data(), size, T{});
    return buffer;
  }

  /// At least `size` numbers: the current memory if it is large enough, else new memory. The
  /// contents are lost.
  T* at_least(int64_t size) {
    if (size_ < size) {
      *this = {};  // the old memory may serve again
      *this = AlignedBuffer(size);
    }
    return data();
  }

  T* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  std::span<T> span() const { return {data(), static_cast<size_t>(size_)}; }
  T& operator[](int64_t i) const { return data_[i]; }

  /// The buffer seen as a row-major array; the caller's shape must fit.
  template <size_t R>
  View<T, static_cast<int>(R)> view(const int64_t (&shape)[R]) const {
    std::array<int64_t, R> extents;
    for (size_t r = 0; r < R; ++r) extents[r] = shape[r];
    return {data(), extents};
  }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };

  std::unique_ptr<T[], Free> data_;
  int64_t size_ = 0;
};

using Buffer = AlignedBuffer<float>;

}  // namespace headwise
