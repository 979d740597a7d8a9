// The specification of attention as obvious loops in double, one row at a time; for tests only.
#pragma once

#include <vector>

#include "headwise/kernels/attention.h"

namespace headwise {

void attention_forward_ref(const Attention& attention, View<double, 3> out, View<double, 2> lse,
                           AttentionObserver* observer = nullptr);

struct AttentionGradientsRef {
  View<double, 3> dq, dk, dv;
  View<double, 2> dgates, dtable;
  View<double, 4> dbias;
  View<double, 1> dsinks;
  bool at_zero_gates = false;
};
void attention_backward_ref(const Attention& attention, View<const float, 3> dout,
                            const AttentionGradientsRef& gradients);

/// The weights of one row on every key of its sequence, before dropout and gates.
std::vector<double> attention_weights_ref(const Attention& attention, int64_t row, int64_t head);

}  // namespace headwise
