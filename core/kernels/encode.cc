// Encodes rows of floats and doubles as keys (runtime/columns.h), a vector of columns at a time.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <utility>

#include "kernels/keys.h"

namespace scurry::SCURRY_ISA {
namespace {

using HalfFloats [[gnu::vector_size(SCURRY_VECTOR_BYTES / 2)]] = float;
using Wide [[gnu::vector_size(SCURRY_VECTOR_BYTES)]] = std::int64_t;

// What was found among the values, lane by lane.
struct Seen {
  Wide inexact{};    // not 0 where some number is not a float
  Vector highest{};  // the highest key
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Loads the first `count` values, and NaN in the other lanes, which lie behind the columns and have 0 as the key of
// NaN.
inline Floats load_some(const float* from, std::size_t count) {
  Floats x = Floats{} + kNan;
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>(count >= kVectorLanes ? 0xFFFFu : (1u << count) - 1);
  return reinterpret_cast<Floats>(_mm512_mask_loadu_ps(reinterpret_cast<__m512>(x), mask, from));
#elif defined(__AVX2__)
  const __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
  const __m256 loaded = _mm256_maskload_ps(from, mask);
  return reinterpret_cast<Floats>(
      _mm256_blendv_ps(reinterpret_cast<__m256>(x), loaded, reinterpret_cast<__m256>(mask)));
#else
  for (std::size_t lane = 0; lane < count; ++lane) x[lane] = from[lane];
  return x;
#endif
}

inline Doubles load_some(const double* from, std::size_t count) {
  Doubles x = Doubles{} + double{kNan};
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask8>((1u << count) - 1);
  return reinterpret_cast<Doubles>(_mm512_mask_loadu_pd(reinterpret_cast<__m512d>(x), mask, from));
#elif defined(__AVX2__)
  const __m256i lane = _mm256_set_epi64x(3, 2, 1, 0);
  const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(count)), lane);
  const __m256d loaded = _mm256_maskload_pd(from, mask);
  return reinterpret_cast<Doubles>(
      _mm256_blendv_pd(reinterpret_cast<__m256d>(x), loaded, reinterpret_cast<__m256d>(mask)));
#else
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

inline Floats join(HalfFloats low, HalfFloats high) {
#if SCURRY_VECTOR_BYTES == 64
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif SCURRY_VECTOR_BYTES == 32
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return __builtin_shufflevector(low, high, 0, 1, 2, 3);
#endif
}

inline Floats load(const double* from, std::size_t count, Seen& seen) {
  constexpr std::size_t kHalf = kVectorLanes / 2;
  const HalfFloats low = round_some(from, std::min(count, kHalf), seen);
  if (count <= kHalf) return join(low, HalfFloats{} + kNan);
  return join(low, round_some(from + kHalf, std::min(count - kHalf, kHalf), seen));
}

template <class T>
inline Floats gather(const T* from, const u32* feature, std::size_t count, Seen& seen) {
  T values[kVectorLanes];
  for (std::size_t lane = 0; lane < count; ++lane) values[lane] = from[feature[lane]];
  return load(values, count, seen);
}

// Where the values of columns lie in a row: in their order, anywhere, or in its first kNearLanes values.
enum class Lie { kInOrder, kAnywhere, kNear };

#if defined(__AVX512F__)
constexpr std::size_t kNearLanes = 2 * kVectorLanes;

// The first values of a row, from which a vector of columns is picked without a way through memory: a register cannot be
// loaded from stores that are still under way.
class NearValues {
 public:
  // All features of the columns are below `end`.
  NearValues(const float* row, std::size_t end)
      : low_(load_some(row, std::min(end, kVectorLanes))),
        high_(end > kVectorLanes ? load_some(row + kVectorLanes, end - kVectorLanes) : low_) {}

  Floats pick(const u32* feature, std::size_t count) const {
    const auto mask = static_cast<__mmask16>(count >= kVectorLanes ? 0xFFFFu : (1u << count) - 1);
    const __m512i at = _mm512_maskz_loadu_epi32(mask, feature);
    const __m512 picked =
        _mm512_permutex2var_ps(reinterpret_cast<__m512>(low_), at, reinterpret_cast<__m512>(high_));
    return reinterpret_cast<Floats>(_mm512_mask_blend_ps(mask, _mm512_set1_ps(kNan), picked));
  }

 private:
  Floats low_, high_;
};
#else
constexpr std::size_t kNearLanes = 0;

struct NearValues {
  NearValues(const float*, std::size_t) {}
  Floats pick(const u32*, std::size_t) const { return Floats{}; }
};
#endif

// kVectors vectors hold the columns and the pad; 0: their number is read at run time.
template <class T, Lie kLie, std::size_t kVectors>
Encoded encode_rows(const FloatColumns& columns, const T* x, std::ptrdiff_t row_stride, std::size_t n,
                    std::size_t ahead, u32* keys) {
  // Copies, because the compiler must assume that writing keys could change the originals.
  const auto* nan_keys = reinterpret_cast<const Vector*>(columns.nan_keys.data());
  const u32* feature = columns.feature.data();
  const std::size_t n_columns = columns.n, stride = columns.stride;
  const std::size_t last = kVectors ? kVectors - 1 : n_columns / kVectorLanes;
  const std::size_t end = kLie == Lie::kNear ? *std::max_element(feature, feature + n_columns) + 1 : 0;
  const std::ptrdiff_t to_prefetched = static_cast<std::ptrdiff_t>(ahead) * row_stride;
  Seen seen;
  for (std::size_t row = 0; row < n; ++row, x += row_stride, keys += stride) {
    for (std::size_t v = 0; v <= last; ++v) {
      const std::size_t c = v * kVectorLanes, count = v < last ? kVectorLanes : n_columns - c;
      if (ahead > 0) {
        constexpr std::size_t kLine = 64 / sizeof(T);
        for (std::size_t lane = 0; lane < kVectorLanes; lane += kLine) {
          __builtin_prefetch(x + to_prefetched + c + lane, 0, 2);
        }
      }
      Floats value;
      if constexpr (kLie == Lie::kNear) {
        value = NearValues(x, end).pick(feature + c, count);
      } else {
        value = kLie == Lie::kAnywhere ? gather(x, feature + c, count, seen) : load(x + c, count, seen);
      }
      const Vector key = value != value ? nan_keys[v] : ordered_keys(value);
      seen.highest = seen.highest > key ? seen.highest : key;
      *reinterpret_cast<Vector*>(keys + c) = key;
    }
  }
  return {any(seen.highest == kNanKey), any(seen.inexact)};
}

template <class T>
Encoded encode(const FloatColumns& columns, const T* x, std::ptrdiff_t row_stride, std::size_t n, std::size_t ahead,
               u32* keys) {
  if (!columns.feature.empty()) {
    if constexpr (std::is_same_v<T, float>) {
      const auto is_near = [](u32 feature) { return feature < kNearLanes; };
      if (std::all_of(columns.feature.begin(), columns.feature.begin() + columns.n, is_near)) {
        return encode_rows<T, Lie::kNear, 0>(columns, x, row_stride, n, ahead, keys);
      }
    }
    return encode_rows<T, Lie::kAnywhere, 0>(columns, x, row_stride, n, ahead, keys);
  }
  switch (columns.n / kVectorLanes + 1) {
    case 1: return encode_rows<T, Lie::kInOrder, 1>(columns, x, row_stride, n, ahead, keys);
    case 2: return encode_rows<T, Lie::kInOrder, 2>(columns, x, row_stride, n, ahead, keys);
    case 3: return encode_rows<T, Lie::kInOrder, 3>(columns, x, row_stride, n, ahead, keys);
    case 4: return encode_rows<T, Lie::kInOrder, 4>(columns, x, row_stride, n, ahead, keys);
    case 5: return encode_rows<T, Lie::kInOrder, 5>(columns, x, row_stride, n, ahead, keys);
    case 6: return encode_rows<T, Lie::kInOrder, 6>(columns, x, row_stride, n, ahead, keys);
    case 7: return encode_rows<T, Lie::kInOrder, 7>(columns, x, row_stride, n, ahead, keys);
    case 8: return encode_rows<T, Lie::kInOrder, 8>(columns, x, row_stride, n, ahead, keys);
    default: return encode_rows<T, Lie::kInOrder, 0>(columns, x, row_stride, n, ahead, keys);
  }
}

#if defined(__AVX512F__)

// With masks, because GCC 12 takes the others for uses of a variable that was never set.
constexpr __mmask8 kAll = 0xFF;

inline __m256i splat(u32 x) { return _mm256_set1_epi32(static_cast<int>(x)); }

// Whether filters hold these keys.
inline __mmask8 are_held(__m256i keys, const u32* filters, __m256i first, __m256i shift, __mmask8 asked) {
  const __m256i word = _mm256_add_epi32(first, _mm256_srlv_epi32(_mm256_mullo_epi32(keys, splat(kFilterWordFactor)), shift));
  const __m256i held = _mm256_mmask_i32gather_epi32(_mm256_setzero_si256(), asked, word, filters, 4);
  const __m256i mixed = _mm256_mullo_epi32(keys, splat(kFilterBitsFactor));
  __m256i bits = _mm256_setzero_si256();
  for (const u32 by : kFilterShifts) {
    const __m256i at = _mm256_and_si256(_mm256_srlv_epi32(mixed, splat(by)), splat(31));
    bits = _mm256_or_si256(bits, _mm256_sllv_epi32(splat(1), at));
  }
  return _mm256_mask_cmpeq_epi32_mask(asked, _mm256_and_si256(held, bits), bits);
}

std::size_t lower_inexact(const FloatColumns& columns, const u32* filters, const double* x, std::ptrdiff_t row_stride,
                          std::size_t n, u32* keys, u32* places) {
  const u32* feature = columns.feature.empty() ? nullptr : columns.feature.data();
  const std::size_t n_columns = columns.n, stride = columns.stride;
  std::size_t n_held = 0;
  for (std::size_t c = 0; c < n_columns; c += kDoubleLanes) {
    const auto present = static_cast<__mmask8>((1u << std::min(n_columns - c, kDoubleLanes)) - 1);
    const __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i*>(columns.first_filter.data() + c));
    const __m256i shift = _mm256_load_si256(reinterpret_cast<const __m256i*>(columns.filter_shift.data() + c));
    const __mmask8 filtered = _mm256_mask_cmplt_epu32_mask(present, shift, splat(32));
    const double* from = x + (feature == nullptr ? c : 0);
    u32* of_row = keys + c;
    for (std::size_t row = 0; row < n; ++row, from += row_stride, of_row += stride) {
      __m512d value;
      if (feature == nullptr) {
        value = _mm512_maskz_loadu_pd(filtered, from);
      } else {
        alignas(64) double gathered[kDoubleLanes] = {};
        for (std::size_t lane = 0; lane < kDoubleLanes && c + lane < n_columns; ++lane) {
          gathered[lane] = from[feature[c + lane]];
        }
        value = _mm512_maskz_load_pd(filtered, gathered);
      }
      const __m512d nearest = _mm512_maskz_cvtps_pd(kAll, _mm512_maskz_cvtpd_ps(kAll, value));
      const __mmask8 inexact = _mm512_cmp_pd_mask(nearest, value, _CMP_NEQ_OQ);
      if (inexact == 0) continue;
      const __mmask8 above = _mm512_mask_cmp_pd_mask(inexact, nearest, value, _CMP_GT_OQ);
      const __mmask8 zero = _mm512_mask_cmp_pd_mask(above, nearest, _mm512_setzero_pd(), _CMP_EQ_OQ);
      __m256i key = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(of_row));
      key = _mm256_mask_sub_epi32(key, above, key, splat(1));
      key = _mm256_mask_sub_epi32(key, zero, key, splat(1));
      _mm256_mask_storeu_epi32(of_row, inexact, key);
      for (u32 held = are_held(key, filters, first, shift, inexact); held != 0; held &= held - 1) {
        places[n_held++] = static_cast<u32>(row * stride + c) + static_cast<u32>(std::countr_zero(held));
      }
    }
  }
  return n_held;
}

#else

std::size_t lower_inexact(const FloatColumns& columns, const u32* filters, const double* x, std::ptrdiff_t row_stride,
                          std::size_t n, u32* keys, u32* places) {
  const u32* feature = columns.feature.empty() ? nullptr : columns.feature.data();
  const std::size_t stride = columns.stride;
  std::size_t n_held = 0;
  for (std::size_t c = 0; c < columns.n; ++c) {
    const u32 shift = columns.filter_shift[c];
    if (shift == 32) continue;
    const u32* filter = filters + columns.first_filter[c];
    const double* from = x + (feature == nullptr ? c : feature[c]);
    u32* key = keys + c;
    for (std::size_t row = 0; row < n; ++row, from += row_stride, key += stride) {
      const double value = *from, nearest = static_cast<double>(static_cast<float>(value));
      if (nearest == value || value != value) continue;
      *key -= static_cast<u32>(nearest > value) << (nearest == 0.0);
      u32 bits = 0;
      for (const u32 by : kFilterShifts) bits |= 1u << ((*key * kFilterBitsFactor >> by) & 31);
      if ((filter[*key * kFilterWordFactor >> shift] & bits) == bits) {
        places[n_held++] = static_cast<u32>(row * stride + c);
      }
    }
  }
  return n_held;
}

#endif

template <std::size_t kFrom, std::size_t... kLane>
inline Vector interleave(Vector a, Vector b, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(a, b, (kFrom + kLane / 2 + kLane % 2 * kVectorLanes)...);
}

// Transposes a square of keys: each time that the vectors of its first half are interleaved with those of the second, one
// more bit of a key's row becomes one of its lane.
void transpose(const u32* keys, std::size_t stride, std::size_t n, std::size_t n_columns, std::int32_t* by_column,
               std::size_t spacing) {
  constexpr auto kEvery = std::make_index_sequence<kVectorLanes>();
  constexpr std::size_t kHalf = kVectorLanes / 2;
  for (std::size_t row = 0; row < n; row += kVectorLanes) {
    for (std::size_t first = 0; first < n_columns; first += kVectorLanes) {
      Vector square[kVectorLanes], next[kVectorLanes];
      for (std::size_t i = 0; i < kVectorLanes; ++i) {
        square[i] = *reinterpret_cast<const Vector*>(keys + (row + i) * stride + first) ^ 0x80000000u;
      }
#pragma GCC unroll 4
      for (std::size_t bits = 1; bits < kVectorLanes; bits *= 2) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < kHalf; ++i) {
          next[2 * i] = interleave<0>(square[i], square[i + kHalf], kEvery);
          next[2 * i + 1] = interleave<kHalf>(square[i], square[i + kHalf], kEvery);
        }
#pragma GCC unroll 16
        for (std::size_t i = 0; i < kVectorLanes; ++i) square[i] = next[i];
      }
      const std::size_t n_here = std::min(n_columns - first, kVectorLanes);
      for (std::size_t i = 0; i < n_here; ++i) {
        *reinterpret_cast<Vector*>(by_column + (first + i) * spacing + row) = square[i];
      }
    }
  }
}

void move(u32* keys, std::size_t stride, const Move* moves, std::size_t n) {
  constexpr std::size_t kLine = 16, kVectors = kLine / kVectorLanes;
  for (std::size_t i = 0; i < n; ++i) {
    const u32* from = keys + moves[i].from * stride;
    u32* to = keys + moves[i].to * stride;
    for (std::size_t line = 0; line < stride; line += kLine) {
      Vector held[kVectors];
      for (std::size_t v = 0; v < kVectors; ++v) held[v] = reinterpret_cast<const Vector*>(from + line)[v];
      for (std::size_t v = 0; v < kVectors; ++v) reinterpret_cast<Vector*>(to + line)[v] = held[v];
    }
  }
}

}  // namespace

const EncodeKernels kEncodeKernels = {encode<float>, encode<double>, lower_inexact, transpose, move};

}  // namespace scurry::SCURRY_ISA
