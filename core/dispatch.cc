#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace scurry {

namespace portable { extern const Kernels kTable; }
#ifdef SCURRY_X86
namespace avx2 { extern const Kernels kTable; }
namespace avx512 { extern const Kernels kTable; }
#endif

namespace {

const Kernels& choose() {
  // SCURRY_ISA=portable|avx2 lets tests and benchmarks run a lesser set on a better processor.
  const char* asked = std::getenv("SCURRY_ISA");
  const bool portable_only = asked != nullptr && std::strcmp(asked, "portable") == 0;
#ifdef SCURRY_X86
  const bool avx2_only = asked != nullptr && std::strcmp(asked, "avx2") == 0;
  __builtin_cpu_init();
  if (!portable_only && !avx2_only && __builtin_cpu_supports("x86-64-v4")) return avx512::kTable;
  if (!portable_only && __builtin_cpu_supports("x86-64-v3")) return avx2::kTable;
#endif
  (void)portable_only;
  return portable::kTable;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace scurry
