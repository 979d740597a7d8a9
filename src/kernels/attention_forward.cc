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

HWY_EXPORT(forward_item);

void attention_forward_item(const AttentionPlan& plan, const ForwardItem& item,
                            const ForwardOutputs& outputs) {
  HWY_DYNAMIC_DISPATCH(forward_item)(plan, item, outputs);
}

}  // namespace headwise
#endif
