// Keys of numbers that are not floats, and the filters of bits that say where a threshold may be near one.
#pragma once

#include <cstdint>

#include "runtime/columns.h"

namespace scurry {

// The key of the largest float that is not above a number.
inline std::uint32_t key_below(double x) {
  const float nearest = static_cast<float>(x);
  const std::uint32_t is_above = static_cast<double>(nearest) > x ? 1 : 0;
  return ordered_key(nearest) - (is_above << (nearest == 0.0f));  // below 0.0 comes the place of -0.0, which has no key
}

inline bool is_inexact(double x) { return static_cast<double>(static_cast<float>(x)) != x && x == x; }

inline std::uint32_t filter_word(std::uint32_t key, std::uint32_t shift) { return (key * kFilterWordFactor) >> shift; }
inline std::uint32_t filter_bits(std::uint32_t key) {
  std::uint32_t bits = 0;
  for (const std::uint32_t shift : kFilterShifts) bits |= 1u << ((key * kFilterBitsFactor >> shift) & 31);
  return bits;
}

}  // namespace scurry
