// A bump allocator per thread.
#include "core/scratch.h"

#include <algorithm>
#include <new>

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

void Scratch::Arena::release(size_t blocks_before, size_t used_before) noexcept {
  if (--scopes > 0 || blocks.size() <= 1) {
    if (blocks_before > 0) blocks.resize(blocks_before);
    used = blocks_before > 0 ? used_before : 0;
    return;
  }
  // The outermost scope needed several blocks: next time one shall do.
  size_t total = 0;
  for (const auto& block : blocks) total += static_cast<size_t>(block.size());
  blocks.clear();
  used = 0;
  try {
    blocks.emplace_back(static_cast<int64_t>(total));
  } catch (const std::bad_alloc&) {
    // It is taken when it is needed.
  }
}

}  // namespace headwise
