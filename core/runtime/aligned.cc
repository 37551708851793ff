// Asks the system for large pages.
#include "runtime/aligned.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace scurry {

void* allocate_large(std::size_t n_bytes) {
  void* const memory = ::operator new(n_bytes, std::align_val_t{kHugePage});
#if defined(__linux__)
  // Not for the rest that fills no whole page: all of it would be in memory. The answer does not matter.
  madvise(memory, n_bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
  return memory;
}

void free_large(void* memory) { ::operator delete(memory, std::align_val_t{kHugePage}); }

}  // namespace scurry
