// The same loop compiled twice: as the baseline requires, and for AVX2 where the processor has it.
#pragma once

#include <cstring>

#include "kernels/kernels.h"

namespace scurry {

// Body::run must be a static [[gnu::always_inline]] function over plain arrays.
template <class Body, class... Arguments>
void run_portable(Arguments... arguments) {
  Body::run(arguments...);
}

#ifdef SCURRY_X86
template <class Body, class... Arguments>
[[gnu::target("avx2")]] void run_avx2(Arguments... arguments) {
  Body::run(arguments...);
}
#endif

template <class Body, class... Arguments>
void vectorised(Arguments... arguments) {
#ifdef SCURRY_X86
  static const bool portable_only = std::strcmp(kernels().name, "portable") == 0;
  if (!portable_only) return run_avx2<Body>(arguments...);
#endif
  run_portable<Body>(arguments...);
}

}  // namespace scurry
