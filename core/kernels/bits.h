// Bits of rows, kChunk to a word.
#pragma once

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {

// Bit i of the result is the sign of lane i.
inline std::uint64_t bits_of(Signed lanes) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(lanes));
#elif defined(__AVX2__)
  return static_cast<u32>(_mm256_movemask_ps(reinterpret_cast<__m256>(lanes)));
#elif defined(__SSE2__)
  return static_cast<u32>(_mm_movemask_ps(reinterpret_cast<__m128>(lanes)));
#else
  std::uint64_t bits = 0;
  for (std::size_t lane = 0; lane < kVectorLanes; ++lane) bits |= static_cast<std::uint64_t>(lanes[lane] < 0) << lane;
  return bits;
#endif
}

// Forgets the bits of rows that are not there.
inline void keep_first(std::uint64_t& bits, std::size_t n) {
  if (n < kChunk) bits &= (std::uint64_t{1} << n) - 1;
}

}  // namespace scurry::SCURRY_ISA
