// The key/value cache and the decode step over it.
#include "headwise/kernels/kv_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "headwise/core/error.h"
#include "kernels/attention_checks.h"

namespace headwise {
namespace {

[[noreturn]] void refuse(std::string what, std::string got, std::string expected) {
  throw Error({.what = "kv_cache: " + std::move(what),
               .got = std::move(got),
               .expected = std::move(expected)});
}

/// Rows of the new keys or values, from `begin` on, to the cache from row `to` on.
void copy_rows(const View<const float, 3>& from, int64_t begin, int64_t count,
               const View<float, 3>& to, int64_t row) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t h = 0; h < to.extent(1); ++h) {
      for (int64_t c = 0; c < to.extent(2); ++c) to(row + i, h, c) = from(begin + i, h, c);
    }
  }
}

}  // namespace

KvCache::KvCache(const Size& size)
    : size_(size),
      k_(element_count(std::array{size.sequences, size.capacity, key_heads(), size.head_dim})),
      v_(element_count(std::array{size.sequences, size.capacity, size.kv_heads, size.value_dim})),
      lengths_(size.sequences) {
  for (int64_t b = 0; b <= size.sequences; ++b) offsets_.push_back(b * size.capacity);
}

void KvCache::append(View<const float, 3> k, View<const float, 3> v,
                     std::span<const int64_t> offsets) {
  const int64_t T = k.extent(0);
  check_view("the keys to append", k, {T, key_heads(), size_.head_dim}, false);
  check_view("the values to append", v, {T, size_.kv_heads, size_.value_dim}, false);
  if (static_cast<int64_t>(offsets.size()) != size_.sequences + 1 || offsets.front() != 0 ||
      offsets.back() != T || !std::is_sorted(offsets.begin(), offsets.end())) {
    refuse("offsets do not fit", fmt::format("{} offsets for {} rows", offsets.size(), T),
           fmt::format("{} ascending from 0 to the number of rows", size_.sequences + 1));
  }
  for (int64_t b = 0; b < size_.sequences; ++b) {
    const int64_t length = lengths_[b] + offsets[b + 1] - offsets[b];
    if (length > size_.capacity) {
      refuse(fmt::format("sequence {} outgrows the cache", b), fmt::format("{} rows", length),
             fmt::format("at most {}", size_.capacity));
    }
  }
  for (int64_t b = 0; b < size_.sequences; ++b) {
    const int64_t count = offsets[b + 1] - offsets[b], at = offsets_[b] + lengths_[b];
    copy_rows(k, offsets[b], count, k_.view({rows(), key_heads(), size_.head_dim}), at);
    copy_rows(v, offsets[b], count, v_.view({rows(), size_.kv_heads, size_.value_dim}), at);
    lengths_[b] += count;
  }
}

void KvCache::reorder(std::span<const int64_t> from) {
  if (static_cast<int64_t>(from.size()) != size_.sequences) {
    refuse("the new order does not name every sequence", fmt::format("{}", from.size()),
           fmt::format("{}", size_.sequences));
  }
  KvCache next(size_);
  for (int64_t b = 0; b < size_.sequences; ++b) {
    const int64_t source = from[b];
    if (source < 0 || source >= size_.sequences) {
      refuse("the new order names no sequence", fmt::format("{}", source),
             fmt::format("0 to {}", size_.sequences - 1));
    }
    const auto move = [&](const Buffer& old, const Buffer& to, int64_t width) {
      std::copy_n(old.data() + offsets_[source] * width, lengths_[source] * width,
                  to.data() + offsets_[b] * width);
    };
    move(k_, next.k_, key_heads() * size_.head_dim);
    move(v_, next.v_, size_.kv_heads * size_.value_dim);
    next.lengths_[b] = lengths_[source];
  }
  *this = std::move(next);
}

CachedAttention::CachedAttention(const Attention& step, const KvCache& cache) : attention_(step) {
  attention_.k = cache.k();
  attention_.v = cache.v();
  attention_.k_offsets = cache.offsets();
  attention_.k_lengths = cache.lengths();
  const std::span<const int64_t> offsets = step.q_offsets;
  if (offsets.size() != cache.offsets().size()) {
    refuse("the step has another number of sequences than the cache",
           fmt::format("{} offsets", offsets.size()), fmt::format("{}", cache.offsets().size()));
  }
  if (offsets.back() != step.q.extent(0) || !std::is_sorted(offsets.begin(), offsets.end())) {
    refuse("the step's offsets do not cover its rows", fmt::format("{}", offsets.back()),
           fmt::format("ascending to {}", step.q.extent(0)));
  }
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    const int64_t rows = offsets[b + 1] - offsets[b];
    for (int64_t i = 0; i < rows; ++i) positions_.push_back(cache.lengths()[b] - rows + i);
  }
  attention_.positions = positions_;
}

void attention_decode(const Attention& step, const KvCache& cache, View<float, 3> out,
                      View<float, 2> lse, AttentionObserver* observer) {
  const CachedAttention cached(step, cache);
  attention_forward(cached.attention(), out, lse, observer);
}

}  // namespace headwise
