// Working memory of one item of a parallel loop, kept by its thread for the next item.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "headwise/core/buffer.h"

namespace headwise {

/// Takes aligned, uninitialised arrays from the thread's memory; gives all of them back at its end.
/// Scratches of one thread nest like scopes.
class Scratch {
 public:
  Scratch() : arena_(arena()), before_(arena_.at) { ++arena_.scopes; }
  ~Scratch() { arena_.release(before_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  template <class T>
  T* take(int64_t count) {
    return reinterpret_cast<T*>(arena_.take(byte_count(std::array<int64_t, 1>{count}, sizeof(T))));
  }

  template <class T>
  T* zeros(int64_t count) {
    T* const data = take<T>(count);
    std::fill_n(data, count, T{});
    return data;
  }

 private:
  /// What is taken: blocks before `block`, and the first `used` bytes of that one.
  struct Mark {
    size_t block = 0, used = 0;
  };
  struct Arena {
    std::vector<AlignedBuffer<std::byte>> blocks;
    Mark at;
    int scopes = 0;

    std::byte* take(size_t bytes);
    void release(Mark before) noexcept;
  };
  static Arena& arena();

  Arena& arena_;
  Mark before_;
};

}  // namespace headwise
