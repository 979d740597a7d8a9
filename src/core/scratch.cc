// A bump allocator per thread.
#include "core/scratch.h"

#include <algorithm>

namespace headwise {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

}  // namespace

Scratch::Arena& Scratch::arena() {
  thread_local Arena arena;
  return arena;
}

std::byte* Scratch::Arena::take(size_t bytes) {
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (blocks.empty() || used + whole > static_cast<size_t>(blocks.back().size())) {
    blocks.emplace_back(static_cast<int64_t>(std::max(whole, kBlock)));
    used = 0;
  }
  std::byte* const taken = blocks.back().data() + used;
  used += whole;
  return taken;
}

void Scratch::Arena::release(size_t blocks_before, size_t used_before) {
  if (blocks_before > 0) {
    blocks.resize(blocks_before);
    used = used_before;
    return;
  }
  // The outermost scope: next time one block shall do.
  if (blocks.size() > 1) {
    size_t total = 0;
    for (const auto& block : blocks) total += static_cast<size_t>(block.size());
    blocks.clear();
    blocks.emplace_back(static_cast<int64_t>(total));
  }
  used = 0;
}

}  // namespace headwise
