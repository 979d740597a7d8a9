// Where heads lie in a tensor of a checkpoint, and tensors without some of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise {

enum class HeadPart { query, key, value, output, bias };  // bias: of relative distances

/// What one head has of a tensor: so many rows, or columns.
struct HeadRows {
  HeadPart part = HeadPart::query;
  int32_t name = 0;  // of the head; of keys and values that of the key/value head
  int64_t width = 0;
  bool operator==(const HeadRows&) const = default;
};

/// A tensor with heads one after the other along an axis.
struct HeadTensor {
  int64_t site = 0;  // among attention_sites; of a table of biases the first of its stack
  int64_t axis = 0;
  std::vector<HeadRows> rows{};
};

/// The attention at a site.
const AttentionConfig& attention_at(const ModelConfig& config, const AttentionSite& site);

/// Calls f(rows, first, count) for every piece of a tensor of this shape that lies in one run and
/// belongs to one head; in numbers of elements.
template <class F>
void for_each_piece(const HeadTensor& tensor, const std::vector<int64_t>& shape, const F& f) {
  int64_t before = 1, behind = 1;
  for (int64_t i = 0; i < std::ssize(shape); ++i) {
    if (i < tensor.axis) before *= shape[i];
    if (i > tensor.axis) behind *= shape[i];
  }
  int64_t first = 0;
  for (int64_t i = 0; i < before; ++i) {
    for (const HeadRows& rows : tensor.rows) {
      f(rows, first, rows.width * behind);
      first += rows.width * behind;
    }
  }
}

struct CutTensor {
  std::vector<int64_t> shape{};
  std::vector<std::byte> bytes{};
};

/// A tensor as `to` has it: every head of `to` is in `from` as well. `element` is the size of one
/// number.
CutTensor cut(const HeadTensor& from, const HeadTensor& to, std::vector<int64_t> shape,
              std::span<const std::byte> bytes, size_t element);

}  // namespace headwise
