// Memory for numbers, on large pages where it is large.
#include "headwise/core/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace headwise {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

/// Asks for large pages, with which matrix products spend no time on finding small ones; that the
/// system has none to give is no error.
void advise_large_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  ::madvise(begin, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
}

}  // namespace

void* allocate_aligned(size_t bytes) {
  if (bytes == 0) return nullptr;
  const bool large = bytes >= kLargePage;
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* p = nullptr;
  if (::posix_memalign(&p, large ? kLargePage : kAlignment, whole) != 0) throw std::bad_alloc();
  if (large) advise_large_pages(p, whole);
  return p;
}

}  // namespace headwise
