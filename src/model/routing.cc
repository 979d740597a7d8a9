// Chooses the heads of every row.
#include "model/routing.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace headwise {

int64_t gate_row(const Attention& params, int64_t b, int64_t t) {
  switch (params.gate_scope) {
    case GateScope::kHead:
      return 0;
    case GateScope::kSequence:
      return b;
    case GateScope::kRow:
      return t;
  }
  return 0;
}

std::vector<int64_t> choose_heads(const RoutingConfig& routing, View<const float, 2> p,
                                  const Attention& params, View<float, 2> gates) {
  const int64_t R = p.extent(1), H = gates.extent(1);
  std::vector<int32_t> order(R);
  std::vector<int64_t> chosen(R);
  for (int64_t b = 0; b + 1 < std::ssize(params.q_offsets); ++b) {
    for (int64_t t = params.q_offsets[b]; t < params.q_offsets[b + 1]; ++t) {
      for (int64_t h = 0; h < H; ++h) {
        gates(t, h) = params.gates.data() == nullptr ? 1 : params.gates(gate_row(params, b, t), h);
      }
      std::iota(order.begin(), order.end(), 0);
      std::ranges::partial_sort(order, order.begin() + routing.active, [&](int32_t i, int32_t j) {
        return p(t, i) > p(t, j) || (p(t, i) == p(t, j) && i < j);
      });
      for (int64_t rank = 0; rank < R; ++rank) {
        chosen[order[rank]] += rank < routing.active;
        const int32_t head = routing.heads[order[rank]];
        if (head < 0) continue;
        gates(t, head) *= rank < routing.active ? static_cast<float>(R) * p(t, order[rank]) : 0.f;
      }
    }
  }
  return chosen;
}

}  // namespace headwise
