// Chooses the kernels of the best instruction set that this processor has.
#include <cstdlib>
#include <cstring>

#include "kernels/kernels.h"

namespace scurry {

namespace portable {
extern const Kernels kTable;
}
#ifdef SCURRY_X86
namespace avx2 {
extern const Kernels kTable;
}
namespace avx512 {
extern const Kernels kTable;
}
#endif

namespace {

#ifdef SCURRY_X86
// The features that CMakeLists.txt compiles the kernels for, one by one: older compilers do not know the names
// x86-64-v3 and x86-64-v4.
bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("popcnt");
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const Kernels& choose() {
  // SCURRY_ISA=portable|avx2 lets tests and benchmarks run a smaller set on a better processor.
  const char* wanted = std::getenv("SCURRY_ISA");
  const bool portable_only = wanted != nullptr && std::strcmp(wanted, "portable") == 0;
#ifdef SCURRY_X86
  const bool avx2_only = wanted != nullptr && std::strcmp(wanted, "avx2") == 0;
  if (!portable_only && !avx2_only && has_avx2() && has_avx512()) return avx512::kTable;
  if (!portable_only && has_avx2()) return avx2::kTable;
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
