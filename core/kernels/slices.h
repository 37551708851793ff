// Slices (runtime/sliced.h): the numbers of the leaves that many rows reach in a tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {

using u64 = std::uint64_t;
using Bits [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = u64;

// Chunks of rows that a slice has bits for: selecting bits takes as long as the processor needs from one to the next, so
// that many of them should be on their way.
#if defined(__AVX512F__)
constexpr std::size_t kSliceChunks = 32;
#elif defined(__AVX2__)
constexpr std::size_t kSliceChunks = 16;
#else
constexpr std::size_t kSliceChunks = 8;
#endif
constexpr std::size_t kSliceRows = kSliceChunks * kChunk;
constexpr std::size_t kSliceVectors = kSliceChunks * sizeof(u64) / sizeof(Bits);

// The slices of one tree.
struct Slices {
  alignas(64) u64 of[kMaxSlices][kSliceChunks];

  Slices() {
    std::fill_n(of[0], kSliceChunks, u64{0});
    std::fill_n(of[1], kSliceChunks, ~u64{0});
  }
};

// Tests kChunk rows. The bit of a row says whether its rank is at least `least`, or whether it is not (kSaysLeft).
inline void test(const u8* ranks, u8 least, u64* bits) {
#if defined(__AVX512F__)
  *bits = _mm512_cmple_epu8_mask(_mm512_set1_epi8(static_cast<char>(least)), _mm512_load_si512(ranks));
#elif defined(__aarch64__)
  // Every row keeps its bit of a byte, and adding neighbours three times brings the bits of eight rows together.
  const auto* x = reinterpret_cast<const std::int8_t*>(ranks);
  const int8x16_t limit = vdupq_n_s8(static_cast<std::int8_t>(least ^ kRankBias));
  const uint8x16_t own_bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
  const auto part = [&](std::size_t at) { return vandq_u8(vcgtq_s8(limit, vld1q_s8(x + at)), own_bit); };
  const uint8x16_t first = vpaddq_u8(part(0), part(16)), last = vpaddq_u8(part(32), part(48));
  const uint8x16_t pairs = vpaddq_u8(first, last);
  *bits = vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)), 0);
#else
  const auto* x = reinterpret_cast<const SignedBytes*>(ranks);
  const SignedBytes limit = SignedBytes{} + static_cast<std::int8_t>(least ^ kRankBias);
  for (std::size_t v = 0; v < kChunk / sizeof(Bytes); ++v) {
    const SignedBytes left = limit > x[v];
    auto* part = reinterpret_cast<u8*>(bits) + v * sizeof(Bytes) / 8;
#if defined(__AVX2__)
    const int mask = _mm256_movemask_epi8(reinterpret_cast<__m256i>(left));
    std::memcpy(part, &mask, 4);
#elif defined(__SSE2__)
    const int mask = _mm_movemask_epi8(reinterpret_cast<__m128i>(left));
    std::memcpy(part, &mask, 2);
#else
    const Bits halves = reinterpret_cast<Bits>(left) & 0x8040201008040201u;
    for (std::size_t half = 0; half < 2; ++half) part[half] = static_cast<u8>(halves[half] * 0x0101010101010101u >> 56);
#endif
  }
#endif
}

// Tests whether kChunk codes are in a set. A code is in it if bit `code % 8` of byte `code / 8` is set; both are found
// by looking up bytes in registers.
inline void test_set(const u8* codes, const SetTest& set, u64* bits) {
#if defined(__AVX512F__)
  const auto table = [&](std::size_t half) {
    return _mm512_maskz_broadcast_i32x4(
        0xFFFF, _mm_load_si128(reinterpret_cast<const __m128i*>(set.bits + 16 * half)));
  };
  const __m512i code = _mm512_load_si512(codes);
  const __m512i at = _mm512_and_si512(_mm512_srli_epi16(code, 3), _mm512_set1_epi8(0x1F));
  const __m512i byte =
      _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table(0), at), _mm512_movepi8_mask(code), table(1), at);
  const __m512i weight = _mm512_shuffle_epi8(_mm512_set1_epi64(static_cast<long long>(0x8040201008040201u)),
                                             _mm512_and_si512(code, _mm512_set1_epi8(7)));
  *bits = _mm512_testn_epi8_mask(byte, weight);
#elif defined(__AVX2__)
  const auto table = [&](std::size_t half) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(set.bits + 16 * half)));
  };
  for (std::size_t v = 0; v < 2; ++v) {
    const __m256i code = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes) + v);
    const __m256i at = _mm256_and_si256(_mm256_srli_epi16(code, 3), _mm256_set1_epi8(0x1F));
    const __m256i byte =
        _mm256_blendv_epi8(_mm256_shuffle_epi8(table(0), at), _mm256_shuffle_epi8(table(1), at), code);
    const __m256i weight = _mm256_shuffle_epi8(_mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u)),
                                               _mm256_and_si256(code, _mm256_set1_epi8(7)));
    const int mask = _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(byte, weight), weight));
    std::memcpy(reinterpret_cast<u8*>(bits) + 4 * v, &mask, 4);
  }
#else
  u64 in_set = 0;
  for (std::size_t row = 0; row < kChunk; ++row) {
    in_set |= u64{static_cast<u8>((set.bits[codes[row] / 8] >> (codes[row] % 8)) & 1)} << row;
  }
  *bits = in_set;
#endif
}

// Makes tests for n_chunks chunks of rows, a slice for each.
inline void make_tests(std::span<const RankTest> tests, const Ranks& ranks, std::size_t row, std::size_t n_chunks,
                       u64* slices) {
  const auto make = [&](std::size_t n) {
    for (const RankTest& one : tests) {
      const u8* of_rows = ranks.of_rows + one.column * ranks.stride + row;
#pragma GCC unroll 32
      for (std::size_t chunk = 0; chunk < n; ++chunk) test(of_rows + chunk * kChunk, one.least, slices + chunk);
      slices += kSliceChunks;
    }
  };
  n_chunks == kSliceChunks ? make(kSliceChunks) : make(n_chunks);
}

// Makes the tests that the trees of a run share, if any.
inline void make_shared_tests(const SlicedProgram& program, const Ranks& ranks, std::size_t row, std::size_t n_chunks,
                              u64* slices) {
  make_tests(program.shared_tests, ranks, row, n_chunks, slices + kMaxSlices * kSliceChunks);
}

// Makes the tests of sets of a tree.
inline void make_set_tests(const SlicedTree& tree, const SlicedProgram& program, const Ranks& ranks, std::size_t row,
                           std::size_t n_chunks, u64* slices) {
  const SetTest* sets = program.set_tests + tree.first_set_test;
  u64* out = slices + (2 + tree.n_tests) * kSliceChunks;
  for (std::size_t t = 0; t < tree.n_set_tests; ++t, out += kSliceChunks) {
    const u8* of_rows = ranks.of_rows + sets[t].column * ranks.stride + row;
    for (std::size_t chunk = 0; chunk < n_chunks; ++chunk) test_set(of_rows + chunk * kChunk, sets[t], out + chunk);
  }
}

// Selects the bits of the numbers of leaves from the answers to the tests of a tree, those of the first kVectors vectors of
// each slice.
template <std::size_t kVectors>
inline void select_planes(const SlicedTree& tree, const SlicedProgram& program, u64* slices) {
  auto* bytes = reinterpret_cast<std::byte*>(slices);
  for (const Select& way : std::span(program.selects + tree.first_select, tree.n_selects)) {
    const auto* chooser = reinterpret_cast<const Bits*>(bytes + way.chooser);
    const auto* no = reinterpret_cast<const Bits*>(bytes + way.no);
    const auto* yes = reinterpret_cast<const Bits*>(bytes + way.yes);
    auto* out = reinterpret_cast<Bits*>(bytes + way.out);
    for (std::size_t v = 0; v < kVectors; ++v) {
#if defined(__AVX512F__)
      out[v] = reinterpret_cast<Bits>(_mm512_ternarylogic_epi64(
          reinterpret_cast<__m512i>(chooser[v]), reinterpret_cast<__m512i>(yes[v]), reinterpret_cast<__m512i>(no[v]),
          0xCA));
#else
      out[v] = no[v] ^ ((no[v] ^ yes[v]) & chooser[v]);
#endif
    }
  }
}

// Finds the bits of the numbers of the leaves that up to kSliceRows rows reach, once make_shared_tests() has made the tests
// that trees share, if any.
inline void find_planes(const SlicedTree& tree, const SlicedProgram& program, const Ranks& ranks, std::size_t row,
                        std::size_t n_chunks, u64* slices) {
  if (program.shared_tests.empty()) {
    make_tests({program.tests + tree.first_test, tree.n_tests}, ranks, row, n_chunks, slices + 2 * kSliceChunks);
  }
  make_set_tests(tree, program, ranks, row, n_chunks, slices);
  if (n_chunks > kSliceChunks / 2) return select_planes<kSliceVectors>(tree, program, slices);
  n_chunks > kSliceChunks / 4 ? select_planes<kSliceVectors / 2>(tree, program, slices)
                              : select_planes<kSliceVectors / 4>(tree, program, slices);
}

// Where the bits of the numbers of a tree's leaves are; those that it does not need are zeros.
template <std::size_t kPlanes = kMaxPlanes>
struct Planes {
  const u64* of[kPlanes];

  Planes(const SlicedTree& tree, const u64* slices) {
    for (std::size_t i = 0; i < kPlanes; ++i) of[i] = slices + tree.planes[i] / sizeof(u64);
  }
};

#if defined(__AVX512F__)

// The numbers of the leaves of one chunk, a byte per row.
template <std::size_t kPlanes>
inline __m512i number_leaves(const Planes<kPlanes>& planes, std::size_t chunk) {
  __m512i leaf = _mm512_setzero_si512();
  for (std::size_t i = 0; i < kPlanes; ++i) {
    const __mmask64 bit = planes.of[i][chunk];
    leaf = _mm512_mask_add_epi8(leaf, bit, leaf, _mm512_set1_epi8(static_cast<char>(1u << i)));
  }
  return leaf;
}

#else

using Pairs [[gnu::vector_size(16), gnu::may_alias]] = u8;
using Fours [[gnu::vector_size(16), gnu::may_alias]] = std::uint16_t;
using Eights [[gnu::vector_size(16), gnu::may_alias]] = u32;

// Turns a matrix of 8 x 8 bits in every lane, by swapping ever larger blocks of it.
inline Bits transpose(Bits x) {
  Bits swap = (x ^ (x >> 7)) & 0x00AA00AA00AA00AAu;
  x ^= swap ^ (swap << 7);
  swap = (x ^ (x >> 14)) & 0x0000CCCC0000CCCCu;
  x ^= swap ^ (swap << 14);
  swap = (x ^ (x >> 28)) & 0x00000000F0F0F0F0u;
  return x ^ swap ^ (swap << 28);
}

// The numbers of the leaves of one chunk, a byte per row. Bytes of the planes are interleaved, so that a lane has the
// bits of 8 rows; then the bits of each row are brought together.
template <std::size_t kPlanes>
inline void number_leaves(const Planes<kPlanes>& planes, std::size_t chunk, u8* leaf) {
  const auto plane = [&](std::size_t i) {
    using Lanes [[gnu::vector_size(16)]] = u64;
    return reinterpret_cast<Pairs>(Lanes{planes.of[i][chunk], 0});
  };
  const auto pair = [](Pairs a, Pairs b) {
    return reinterpret_cast<Fours>(
        __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
  };
  const Fours ab = pair(plane(0), plane(1)), cd = pair(plane(2), plane(3)), ef = pair(plane(4), plane(5));
  Fours gh{};
  if constexpr (kPlanes > kMaxPlanes) gh = pair(plane(6), plane(7));
  const auto low = [](Fours a, Fours b) {
    return reinterpret_cast<Eights>(__builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
  };
  const auto high = [](Fours a, Fours b) {
    return reinterpret_cast<Eights>(__builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
  };
  const Eights parts[2][2] = {{low(ab, cd), low(ef, gh)}, {high(ab, cd), high(ef, gh)}};
  alignas(64) Eights lanes[4];
  for (std::size_t half = 0; half < 2; ++half) {
    const auto [abcd, efgh] = parts[half];
    lanes[2 * half] = __builtin_shufflevector(abcd, efgh, 0, 4, 1, 5);
    lanes[2 * half + 1] = __builtin_shufflevector(abcd, efgh, 2, 6, 3, 7);
  }
  for (std::size_t v = 0; v < kChunk / sizeof(Bits); ++v) {
    reinterpret_cast<Bits*>(leaf)[v] = transpose(reinterpret_cast<const Bits*>(lanes)[v]);
  }
}

#endif

// The same of n_chunks chunks, wherever they are to be.
template <std::size_t kPlanes>
inline void store_leaves(const SlicedTree& tree, const u64* slices, std::size_t n_chunks, u8* leaf) {
  const Planes<kPlanes> planes(tree, slices);
  for (std::size_t chunk = 0; chunk < n_chunks; ++chunk) {
#if defined(__AVX512F__)
    _mm512_store_si512(leaf + chunk * kChunk, number_leaves(planes, chunk));
#else
    number_leaves(planes, chunk, leaf + chunk * kChunk);
#endif
  }
}

}  // namespace scurry::SCURRY_ISA
