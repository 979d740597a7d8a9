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
  const auto size = [&](size_t block) { return static_cast<size_t>(blocks[block].size()); };
  if (blocks.empty() || at.used + whole > size(at.block)) {
    const size_t next = blocks.empty() ? 0 : at.block + 1;
    if (next == blocks.size() || size(next) < whole) {
      blocks.resize(next);  // a later one is in nobody's use, and too small
      blocks.emplace_back(static_cast<int64_t>(std::max(whole, kBlock)));
    }
    at = {next, 0};
  }
  std::byte* const taken = blocks[at.block].data() + at.used;
  at.used += whole;
  return taken;
}

void Scratch::Arena::release(Mark before) noexcept {
  at = before;
  if (--scopes > 0 || blocks.size() <= 1) return;
  // The outermost scope needed several blocks: next time one shall do.
  size_t total = 0;
  for (const auto& block : blocks) total += static_cast<size_t>(block.size());
  blocks.clear();
  at = {};
  try {
    blocks.emplace_back(static_cast<int64_t>(total));
  } catch (const std::bad_alloc&) {
    // It is taken when it is needed.
  }
}

}  // namespace headwise
