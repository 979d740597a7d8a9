// Memory for numbers, on large pages where it is large.
#include "headwise/core/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace headwise {
namespace {

constexpr uintptr_t kLargePage = uintptr_t{2} << 20;

/// Asks for large pages, with which matrix products spend no time on finding small ones. What lies
/// beside in the same page gets it too; that the system has none to give is no error.
void advise_large_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  const uintptr_t from = reinterpret_cast<uintptr_t>(begin) / kLargePage * kLargePage;
  const uintptr_t to = reinterpret_cast<uintptr_t>(begin) + bytes;
  ::madvise(reinterpret_cast<void*>(from), (to - from + kLargePage - 1) / kLargePage * kLargePage,
            MADV_HUGEPAGE);
#endif
}

}  // namespace

void* allocate_aligned(size_t bytes) {
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (whole == 0) return nullptr;
  const bool large = whole >= kLargePage;
  void* const p = std::aligned_alloc(large ? kLargePage : kAlignment, whole);
  if (p == nullptr) throw std::bad_alloc();
  if (large) advise_large_pages(p, whole);
  return p;
}

}  // namespace headwise
