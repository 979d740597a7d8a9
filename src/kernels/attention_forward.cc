// The forward kernel: one item of rows against all keys they see, a block of keys at a time, with a
// running softmax.
#include "kernels/attention_forward.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_forward-inl.h"

#if HWY_ONCE
namespace headwise {

HWY_EXPORT(forward_items);

void attention_forward_items(const AttentionPlan& plan, std::span<const ForwardItem> items,
                             const ForwardOutputs& outputs) {
  HWY_DYNAMIC_DISPATCH(forward_items)(plan, items, outputs);
}

}  // namespace headwise
#endif
