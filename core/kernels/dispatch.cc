// Chooses the kernels of the best instruction set that this processor has.
#include <cstdlib>
#include <cstring>
#ifdef SCURRY_X86
#include <cpuid.h>
#endif

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
namespace avx512vbmi {
extern const CompressKernels kCompressKernels;
extern const SymmetricKernels kSymmetricKernels;
}
#endif

namespace {

#ifdef SCURRY_X86
// Asked of the processor itself: __builtin_cpu_supports needs a runtime library that clang-cl does not link.
struct Processor {
  unsigned leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, saved_by_system = 0;

  Processor() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) != 0) leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
      leaf7_ebx = b;
      leaf7_ecx = c;
    }
    constexpr unsigned kHasXgetbv = 1u << 27;
    if ((leaf1_ecx & kHasXgetbv) != 0) __asm__ volatile("xgetbv" : "=a"(saved_by_system), "=d"(d) : "c"(0));
  }

  // Registers that the operating system does not save belong to nobody, whatever the processor can do.
  bool has(unsigned features, unsigned registers) const {
    return (leaf7_ebx & features) == features && (saved_by_system & registers) == registers;
  }
};

// The features that CMakeLists.txt compiles the kernels for.
bool has_avx2(const Processor& processor) {
  constexpr unsigned kBmi = 1u << 3, kAvx2 = 1u << 5, kBmi2 = 1u << 8, kPopcnt = 1u << 23;
  return processor.has(kBmi | kAvx2 | kBmi2, 0x06) && (processor.leaf1_ecx & kPopcnt) != 0;
}

bool has_avx512(const Processor& processor) {
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kCd = 1u << 28, kBw = 1u << 30, kVl = 1u << 31;
  return processor.has(kF | kDq | kCd | kBw | kVl, 0xe6);
}

bool has_vbmi(const Processor& processor) {
  constexpr unsigned kVbmi = 1u << 1, kVbmi2 = 1u << 6;
  return (processor.leaf7_ecx & (kVbmi | kVbmi2)) == (kVbmi | kVbmi2);
}

// With the loops that gain from looking up and moving bytes.
const Kernels& avx512_of(const Processor& processor) {
  static const Kernels with_vbmi = [] {
    const Kernels& of = avx512::kTable;
    return Kernels{of.encode, of.narrow, of.wide,   of.sums,         of.lane_tests, of.ranks,
                   of.rivals, of.states, avx512vbmi::kSymmetricKernels, of.sliced, of.sliced_lanes,
                   avx512vbmi::kCompressKernels, of.max_register_stride, of.tops_stride, of.tests_by_column, of.name};
  }();
  return has_vbmi(processor) ? with_vbmi : avx512::kTable;
}
#endif

const Kernels& choose() {
  // SCURRY_ISA=portable|avx2|avx512-plain (the first processors of AVX-512) lets tests and benchmarks run a smaller set on a better processor.
  const char* wanted = std::getenv("SCURRY_ISA");
  const bool portable_only = wanted != nullptr && std::strcmp(wanted, "portable") == 0;
#ifdef SCURRY_X86
  const bool avx2_only = wanted != nullptr && std::strcmp(wanted, "avx2") == 0;
  const Processor processor;
  if (!portable_only && !avx2_only && has_avx2(processor) && has_avx512(processor)) {
    const bool plain = wanted != nullptr && std::strcmp(wanted, "avx512-plain") == 0;
    return plain ? avx512::kTable : avx512_of(processor);
  }
  if (!portable_only && has_avx2(processor)) return avx2::kTable;
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
