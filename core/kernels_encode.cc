#include <algorithm>

#include "kernels_isa.h"

namespace scurry::SCURRY_ISA {
namespace {

using Floats [[gnu::vector_size(64), gnu::may_alias, gnu::aligned(4)]] = float;
using HalfFloats [[gnu::vector_size(32)]] = float;
using Wide [[gnu::vector_size(64)]] = std::int64_t;

// What was met among the values, lane by lane.
struct Seen {
  Wide inexact{};    // not 0 where some number is no float
  Vector highest{};  // the highest key
};

// The first `count` values, 0 in the other lanes.
inline Floats load_some(const float* from, std::size_t count) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from));
#else
  Floats x{};
  for (std::size_t lane = 0; lane < count; ++lane) x[lane] = from[lane];
  return x;
#endif
}

inline Doubles load_some(const double* from, std::size_t count) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1), from));
#else
  Doubles x{};
  for (std::size_t lane = 0; lane < count; ++lane) x[lane] = from[lane];
  return x;
#endif
}

inline HalfFloats round_some(const double* from, std::size_t count, Seen& seen) {
  const Doubles x = load_some(from, count);
  const HalfFloats rounded = __builtin_convertvector(x, HalfFloats);
  seen.inexact |= (__builtin_convertvector(rounded, Doubles) != x) & (x == x);
  return rounded;
}

inline Floats load(const float* from, std::size_t count, Seen&) {
  return count >= kVectorLanes ? *reinterpret_cast<const Floats*>(from) : load_some(from, count);
}

inline Floats load(const double* from, std::size_t count, Seen& seen) {
  constexpr std::size_t kHalf = kVectorLanes / 2;
  const HalfFloats low = round_some(from, std::min(count, kHalf), seen);
  if (count <= kHalf) return __builtin_shufflevector(low, HalfFloats{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const HalfFloats high = round_some(from + kHalf, std::min(count - kHalf, kHalf), seen);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

template <class T>
inline Floats gather(const T* from, const u32* feature, std::size_t count, Seen& seen) {
  T values[kVectorLanes] = {};
  count = std::min(count, kVectorLanes);
  for (std::size_t lane = 0; lane < count; ++lane) values[lane] = from[feature[lane]];
  return load(values, count, seen);
}

inline Vector ordered_keys(Floats x) {
  const Vector bits = reinterpret_cast<Vector>(x + 0.0f);
  return bits ^ (reinterpret_cast<Vector>(reinterpret_cast<Signed>(bits) >> 31) | 0x80000000u);
}

template <class Lanes>
inline bool any(Lanes lanes) {
  bool found = false;
  for (std::size_t lane = 0; lane < sizeof(Lanes) / sizeof(lanes[0]); ++lane) found |= lanes[lane] != 0;
  return found;
}

template <class T, bool kGather>
Encoded encode_rows(const FloatColumns& columns, const T* x, std::ptrdiff_t row_stride, std::size_t n, u32* keys) {
  // Read once: as far as the compiler knows, writing keys may change them.
  const u32 *nan_keys = columns.nan_keys.data(), *used = columns.used.data(), *feature = columns.feature.data();
  const std::size_t n_columns = columns.n, stride = columns.stride;
  Seen seen;
  for (std::size_t row = 0; row < n; ++row, x += row_stride, keys += stride) {
    // One column more than there are: the pad.
    for (std::size_t c = 0; c <= n_columns; c += kVectorLanes) {
      const Floats value = kGather ? gather(x, feature + c, n_columns - c, seen) : load(x + c, n_columns - c, seen);
      const Vector nan_key = *reinterpret_cast<const Vector*>(nan_keys + c);
      const Vector key = (value != value ? nan_key : ordered_keys(value)) & *reinterpret_cast<const Vector*>(used + c);
      seen.highest = seen.highest > key ? seen.highest : key;
      *reinterpret_cast<Vector*>(keys + c) = key;
    }
  }
  return {any(seen.highest == kNanKey), any(seen.inexact)};
}

template <class T>
Encoded encode(const FloatColumns& columns, const T* x, std::ptrdiff_t row_stride, std::size_t n, u32* keys) {
  return columns.feature.empty() ? encode_rows<T, false>(columns, x, row_stride, n, keys)
                                 : encode_rows<T, true>(columns, x, row_stride, n, keys);
}

}  // namespace

const EncodeKernels kEncodeKernels = {encode<float>, encode<double>};

}  // namespace scurry::SCURRY_ISA
