// A mixture of heads at inference: what a row does not use of an attention is not computed for it.
//
// Rows that use a head are gathered; their queries, their attention and their share of the output
// are computed for them alone. Keys and values, which other rows read, are computed for all rows.
#pragma once

#include <functional>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/gemm.h"
#include "headwise/model/config.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {

class RoutedAttention {
 public:
  struct Scratch {
    Buffer shared_gates;
    Buffer x, queries, z, out, head_gates;  // of the rows of one head
  };
  /// What is done to queries before they attend, at these positions.
  using Prepare = std::function<void(View<float, 3> queries, std::span<const int64_t> positions)>;

  struct Rows {
    View<const float, 2> x{};              // [T, C]
    std::span<const int64_t> positions{};  // [T], in their texts
    Attention params{};                    // with keys, values and the gates that the rows chose
    Prepare prepare{};
  };

  RoutedAttention(const MultiHeadAttention& all, const RoutingConfig& routing);

  /// The heads that all rows use, with keys and values of all heads.
  const MultiHeadAttention& shared() const { return shared_; }
  /// The columns of gates [T, H] that belong to them.
  View<const float, 2> shared_gates(View<const float, 2> gates, Scratch& scratch) const;

  /// Adds to out [T, C] what the routed heads give to the rows that use them.
  void add(const Rows& rows, View<float, 2> out, Scratch& scratch) const;

 private:
  struct Head {
    int32_t index = 0, kv = 0;
    PackedWeights query{}, output{};
    Buffer query_bias{};
  };

  void add_head(const Head& head, const Rows& rows, View<float, 2> out, Scratch& scratch) const;

  std::vector<int32_t> always_;  // the heads that all rows use
  MultiHeadAttention shared_;
  std::vector<Head> heads_;
};

}  // namespace headwise
