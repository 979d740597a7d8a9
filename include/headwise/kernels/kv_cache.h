// Keys and values of sequences under generation, and attention of their newest rows over them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/attention.h"

namespace headwise {

class KvCache {
 public:
  struct Size {
    int64_t sequences, capacity, kv_heads, head_dim, value_dim;
    std::optional<int64_t> key_heads{};  // fewer than kv_heads, if the others have no keys
  };
  explicit KvCache(const Size& size);

  /// Appends rows k [T, key_heads, D] and v [T, K, Dv]; sequence b gets offsets[b] …
  /// offsets[b+1]-1.
  void append(View<const float, 3> k, View<const float, 3> v, std::span<const int64_t> offsets);

  /// Sequence b becomes a copy of the former sequence from[b] (beam search).
  void reorder(std::span<const int64_t> from);

  View<const float, 3> k() const { return k_.view({rows(), key_heads(), size_.head_dim}); }
  View<const float, 3> v() const { return v_.view({rows(), size_.kv_heads, size_.value_dim}); }
  std::span<const int64_t> offsets() const {
    return offsets_;
  }  // [B+1], of the room each sequence has
  std::span<const int64_t> lengths() const { return lengths_; }  // [B], of what is filled
  const Size& size() const { return size_; }

 private:
  int64_t rows() const { return size_.sequences * size_.capacity; }
  int64_t key_heads() const { return size_.key_heads.value_or(size_.kv_heads); }

  Size size_;
  Buffer k_, v_;
  std::vector<int64_t> offsets_, lengths_;
};

/// The attention of rows that are the last of their sequences in a cache (their own keys appended
/// already). Of `step`, q, q_offsets and the arithmetic are used; keys, lengths and positions come
/// from the cache.
class CachedAttention {
 public:
  CachedAttention(const Attention& step, const KvCache& cache);
  CachedAttention(const CachedAttention&) = delete;
  CachedAttention& operator=(const CachedAttention&) = delete;

  const Attention& attention() const { return attention_; }

 private:
  Attention attention_;
  std::vector<int64_t> positions_;
};

/// attention_forward of it.
void attention_decode(const Attention& step, const KvCache& cache, View<float, 3> out,
                      View<float, 2> lse = {}, AttentionObserver* observer = nullptr);

}  // namespace headwise
