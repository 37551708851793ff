// Keys of floats (runtime/columns.h), a vector at a time.
#pragma once

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {

using Floats [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias, gnu::aligned(4)]] = float;

inline Vector ordered_keys(Floats x) {
  const Vector bits = reinterpret_cast<Vector>(x + 0.0f);
  const Vector sign = reinterpret_cast<Vector>(reinterpret_cast<Signed>(bits) >> 31);
#if defined(__AVX512F__)
  // The same as below in one instruction, which GCC does not find by itself.
  return reinterpret_cast<Vector>(_mm512_ternarylogic_epi32(
      reinterpret_cast<__m512i>(bits), reinterpret_cast<__m512i>(sign), _mm512_set1_epi32(INT32_MIN), 0x1E));
#else
  return bits ^ (sign | 0x80000000u);
#endif
}

template <class Lanes>
inline bool any(Lanes lanes) {
  bool found = false;
  for (std::size_t lane = 0; lane < sizeof(Lanes) / sizeof(lanes[0]); ++lane) found |= lanes[lane] != 0;
  return found;
}

}  // namespace scurry::SCURRY_ISA
