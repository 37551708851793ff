// Sliced trees (runtime/sliced.h): the leaves that rows reach, and sums over the leaves of all trees.
#include "kernels/row.h"
#include "kernels/slices.h"

namespace scurry::SCURRY_ISA {
namespace {

#if defined(__AVX512F__)

// payload[row] of one chunk: 16 rows look up 32 payloads in two registers at a time.
inline void look_up(__m512i leaf, const u32* payload_of_leaf, u32* payload) {
  __m512i table[4];
  for (std::size_t i = 0; i < 4; ++i) table[i] = _mm512_loadu_si512(payload_of_leaf + 16 * i);
  alignas(64) u8 bytes[kChunk];
  _mm512_store_si512(bytes, leaf);
  for (std::size_t row = 0; row < kChunk; row += kVectorLanes) {
    const __m128i numbers = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes + row));
    const __m512i at = _mm512_maskz_cvtepu8_epi32(0xFFFF, numbers);
    const __m512i low = _mm512_permutex2var_epi32(table[0], at, table[1]);
    const __m512i high = _mm512_permutex2var_epi32(table[2], at, table[3]);
    const __mmask16 is_high = _mm512_test_epi32_mask(at, _mm512_set1_epi32(32));
    _mm512_storeu_si512(payload + row, _mm512_mask_blend_epi32(is_high, low, high));
  }
}

#endif

void walk(const SlicedTree& tree, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
          const u32* payload_of_leaf, u32* payload) {
  Slices slices;
  for (std::size_t row = 0; row < n; row += kSliceRows) {
    const std::size_t n_chunks = std::min(kSliceChunks, (n - row) / kChunk);
    find_planes(tree, program, ranks, row, n_chunks, slices.of[0]);
    const Planes planes(tree, slices.of[0]);
    for (std::size_t chunk = 0; chunk < n_chunks; ++chunk) {
      u32* to = payload + row + chunk * kChunk;
#if defined(__AVX512F__)
      look_up(number_leaves(planes, chunk), payload_of_leaf, to);
#else
      alignas(64) u8 leaf[kChunk];
      number_leaves(planes, chunk, leaf);
      for (std::size_t i = 0; i < kChunk; ++i) to[i] = payload_of_leaf[leaf[i]];
#endif
    }
  }
}

void walk_large(const SlicedTree& tree, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
                const u32* payload_of_leaf, u32* payload) {
  Slices slices;
  for (std::size_t row = 0; row < n; row += kSliceRows) {
    const std::size_t n_chunks = std::min(kSliceChunks, (n - row) / kChunk);
    find_planes(tree, program, ranks, row, n_chunks, slices.of[0]);
    alignas(64) u8 leaf[kSliceRows];
    store_leaves<kLargePlanes>(tree, slices.of[0], n_chunks, leaf);
    for (std::size_t i = 0; i < n_chunks * kChunk; ++i) payload[row + i] = payload_of_leaf[leaf[i]];
  }
}

constexpr std::size_t kTreesTogether = 8;  // whose leaves are added while the sums of a row stay in registers

// Numbers the leaves of a few trees for each slice of rows, and has them added together.
template <std::size_t kPlanes, class Add>
void add_together(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
                  u64* slices, const Add& add) {
  alignas(64) u8 leaf[kTreesTogether][kSliceRows];
  for (std::size_t row = 0; row < n; row += kSliceRows) {
    const std::size_t n_rows = std::min(kSliceRows, n - row), n_chunks = n_rows / kChunk;
    make_shared_tests(program, ranks, row, n_chunks, slices);
    for (std::size_t first = 0; first < trees.size(); first += kTreesTogether) {
      const std::size_t n_trees = std::min(kTreesTogether, trees.size() - first);
      for (std::size_t t = 0; t < n_trees; ++t) {
        find_planes(trees[first + t], program, ranks, row, n_chunks, slices);
        store_leaves<kPlanes>(trees[first + t], slices, n_chunks, leaf[t]);
      }
      add(leaf, first, n_trees, row, n_rows);
    }
  }
}

// kTrees = 0: their number is read at run time.
template <class Part, std::size_t kParts, std::size_t kTrees>
inline void add_some_words(const u8 (&leaf)[kTreesTogether][kSliceRows], std::size_t n_trees, std::size_t n,
                           const u32* payloads, const std::uint16_t* table, std::size_t width, std::uint16_t* sums) {
  const std::size_t trees = kTrees ? kTrees : n_trees;
  for (std::size_t row = 0; row < n; ++row) {
    auto* to = reinterpret_cast<Part*>(sums + row * width);
    Part total[kParts];
    for (std::size_t part = 0; part < kParts; ++part) total[part] = to[part];
    for (std::size_t t = 0; t < trees; ++t) {
      const auto* from = reinterpret_cast<const Part*>(table + payloads[t * kLargeNumbers + leaf[t][row]] * width);
      for (std::size_t part = 0; part < kParts; ++part) total[part] += from[part];
    }
    for (std::size_t part = 0; part < kParts; ++part) to[part] = total[part];
  }
}

template <class Part, std::size_t kParts>
void add_word_parts(const u8 (&leaf)[kTreesTogether][kSliceRows], std::size_t n_trees, std::size_t n,
                    const u32* payloads, const std::uint16_t* table, std::size_t width, std::uint16_t* sums) {
  n_trees == kTreesTogether
      ? add_some_words<Part, kParts, kTreesTogether>(leaf, n_trees, n, payloads, table, width, sums)
      : add_some_words<Part, kParts, 0>(leaf, n_trees, n, payloads, table, width, sums);
}

void add_words(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
               const u32* payloads, const std::uint16_t* table, std::size_t width, std::uint16_t* sums, u64* slices) {
  using Eight [[gnu::vector_size(16), gnu::may_alias]] = std::uint16_t;
  constexpr std::size_t kSixteenBytes = std::min(SCURRY_VECTOR_BYTES, 32);
  using Sixteen [[gnu::vector_size(kSixteenBytes), gnu::may_alias]] = std::uint16_t;
  using Some [[gnu::vector_size(SCURRY_VECTOR_BYTES), gnu::may_alias]] = std::uint16_t;
  add_together<kLargePlanes>(trees, program, ranks, n, slices, [&](const auto& leaf, std::size_t first,
                                                                    std::size_t n_trees, std::size_t row,
                                                                    std::size_t n_rows) {
    const u32* of_trees = payloads + first * kLargeNumbers;
    std::uint16_t* to = sums + row * width;
    switch (width) {
      case 8: add_word_parts<Eight, 1>(leaf, n_trees, n_rows, of_trees, table, width, to); break;
      case 16: add_word_parts<Sixteen, 32 / kSixteenBytes>(leaf, n_trees, n_rows, of_trees, table, width, to); break;
      default:  // several groups of 32
        for (std::size_t group = 0; group < width; group += 32) {
          add_word_parts<Some, 64 / sizeof(Some)>(leaf, n_trees, n_rows, of_trees, table + group, width, to + group);
        }
    }
  });
}

#if defined(__AVX512F__)

constexpr bool kLeavesAreWords = true;

// Where the sum of each row of a chunk lies while trees are added: words are looked up for the even rows, then for the
// odd ones, and unpacking puts two of them next to each other in each of the four lanes of a register.
template <class Real>
constexpr std::size_t place_of(std::size_t row) {
  const std::size_t word = row / 2, lane = word / 8, in_lane = word % 8;
  if constexpr (sizeof(Real) == 8) return 32 * (row % 2) + 8 * (in_lane / 2) + 2 * lane + in_lane % 2;
  return 32 * (row % 2) + 16 * (in_lane / 4) + 4 * lane + in_lane % 4;
}

template <class Real>
void reorder(Real* sums, std::size_t n, bool back) {
  for (Real* chunk = sums; chunk < sums + n; chunk += kChunk) {
    Real copy[kChunk];
    std::copy_n(chunk, kChunk, copy);
    for (std::size_t row = 0; row < kChunk; ++row) {
      back ? chunk[row] = copy[place_of<Real>(row)] : chunk[place_of<Real>(row)] = copy[row];
    }
  }
}

inline void add_chunk(__m512i leaf, const __m512i (&words)[4][2], double* sums) {
  auto* total = reinterpret_cast<Doubles*>(sums);
  for (std::size_t half = 0; half < 2; ++half, total += 4) {
    const __m512i at = half == 0 ? leaf : _mm512_srli_epi16(leaf, 8);
    __m512i word[4];
    for (std::size_t w = 0; w < 4; ++w) word[w] = _mm512_permutex2var_epi16(words[w][0], at, words[w][1]);
    const __m512i low01 = _mm512_unpacklo_epi16(word[0], word[1]), high01 = _mm512_unpackhi_epi16(word[0], word[1]);
    const __m512i low23 = _mm512_unpacklo_epi16(word[2], word[3]), high23 = _mm512_unpackhi_epi16(word[2], word[3]);
    // With masks, because GCC 12 takes the others for uses of a variable that was never set.
    total[0] += reinterpret_cast<Doubles>(_mm512_maskz_unpacklo_epi32(0xFFFF, low01, low23));
    total[1] += reinterpret_cast<Doubles>(_mm512_maskz_unpackhi_epi32(0xFFFF, low01, low23));
    total[2] += reinterpret_cast<Doubles>(_mm512_maskz_unpacklo_epi32(0xFFFF, high01, high23));
    total[3] += reinterpret_cast<Doubles>(_mm512_maskz_unpackhi_epi32(0xFFFF, high01, high23));
  }
}

inline void add_chunk(__m512i leaf, const __m512i (&words)[2][2], float* sums) {
  using Floats [[gnu::vector_size(64), gnu::may_alias]] = float;
  auto* total = reinterpret_cast<Floats*>(sums);
  for (std::size_t half = 0; half < 2; ++half, total += 2) {
    const __m512i at = half == 0 ? leaf : _mm512_srli_epi16(leaf, 8);
    const __m512i low = _mm512_permutex2var_epi16(words[0][0], at, words[0][1]);
    const __m512i high = _mm512_permutex2var_epi16(words[1][0], at, words[1][1]);
    total[0] += reinterpret_cast<Floats>(_mm512_unpacklo_epi16(low, high));
    total[1] += reinterpret_cast<Floats>(_mm512_unpackhi_epi16(low, high));
  }
}

template <class Real>
void add_trees(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
               const Real* values, Real* sums, const u8* const* numbers, u64* slices) {
  constexpr std::size_t kWords = sizeof(Real) / 2;
  reorder(sums, n, false);
  for (std::size_t row = 0; row < n; row += kSliceRows) {
    const std::size_t n_chunks = std::min(kSliceChunks, (n - row) / kChunk);
    const Real* of_tree = values;
    make_shared_tests(program, ranks, row, n_chunks, slices);
    for (std::size_t t = 0; t < trees.size(); ++t) {
      const SlicedTree& tree = trees[t];
      const u8* leaf = numbers == nullptr ? nullptr : numbers[t];
      if (leaf == nullptr) find_planes(tree, program, ranks, row, n_chunks, slices);
      __m512i words[kWords][2];
      for (std::size_t i = 0; i < 2 * kWords; ++i) {
        words[i / 2][i % 2] = _mm512_load_si512(reinterpret_cast<const std::uint16_t*>(of_tree) + 32 * i);
      }
      const Planes planes(tree, slices);
      for (std::size_t chunk = 0; chunk < n_chunks; ++chunk) {
        const std::size_t at = row + chunk * kChunk;
        add_chunk(leaf == nullptr ? number_leaves(planes, chunk) : _mm512_load_si512(leaf + at), words, sums + at);
      }
      of_tree += kMaxSlicedLeaves;
    }
  }
  reorder(sums, n, true);
}

#else

constexpr bool kLeavesAreWords = false;

template <class Real>
void add_trees(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
               const Real* values, Real* sums, const u8* const*, u64* slices) {
  add_together<kMaxPlanes>(trees, program, ranks, n, slices, [&](const auto& leaf, std::size_t first,
                                                                  std::size_t n_trees, std::size_t row,
                                                                  std::size_t n_rows) {
    const Real* of_tree = values + first * kMaxSlicedLeaves;
    const auto add = [&](std::size_t n_together) {
      for (std::size_t i = 0; i < n_rows; ++i) {
        Real total = sums[row + i];
        for (std::size_t t = 0; t < n_together; ++t) total += of_tree[t * kMaxSlicedLeaves + leaf[t][i]];
        sums[row + i] = total;
      }
    };
    n_trees == kTreesTogether ? add(kTreesTogether) : add(n_trees);
  });
}

#endif

#if defined(__AVX2__)
constexpr std::size_t kRankingOfTop = 10, kRankingOfLarge = 60;
#else
constexpr std::size_t kRankingOfTop = 2, kRankingOfLarge = 12;  // rows are ranked one by one
#endif

#if defined(__AVX2__)

// Follows the paths of many trees at once, through the outcomes of their tests. These are long in memory when they are
// read: a register cannot be loaded from stores that are still under way.
template <class Row>
void walk_row_in(std::span<const RowTests> trees, const Row& row, const u32* payloads, u32* payload) {
  constexpr std::size_t kTogether = 64, kVectors = kTogether * sizeof(u64) / sizeof(Bits);
  alignas(64) u64 outcomes[kTogether] = {}, leaf[kTogether];
  for (std::size_t first = 0; first < trees.size(); first += kTogether) {
    const std::size_t n = std::min(kTogether, trees.size() - first);
    for (std::size_t t = 0; t < n; ++t) outcomes[t] = row.test(trees[first + t]);
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Bits of_trees = reinterpret_cast<const Bits*>(outcomes)[v];
      Bits node = (of_trees & 1) + 1;
      for (std::size_t level = 1; level < kMaxPlanes; ++level) node = node + node + 1 + ((of_trees >> node) & 1);
      reinterpret_cast<Bits*>(leaf)[v] = node - (kMaxSlicedLeaves - 1);
    }
    for (std::size_t t = 0; t < n; ++t) payload[first + t] = payloads[(first + t) * kMaxSlicedLeaves + leaf[t]];
  }
}

constexpr std::size_t kMostRowRanks = kMaxRowRanks;

void walk_row(std::span<const RowTests> trees, const u8* ranks, std::size_t n_columns, const u32* payloads,
              u32* payload) {
  with_ranks(ranks, n_columns, [&](const auto& row) { walk_row_in(trees, row, payloads, payload); });
}

#else

constexpr std::size_t kMostRowRanks = 0;  // a row is walked: there is no instruction that picks bytes of a register

void walk_row(std::span<const RowTests>, const u8*, std::size_t, const u32*, u32*) {}

#endif

}  // namespace

const SlicedKernels kSlicedKernels = {walk,     walk_large,    add_words,    add_trees<float>, add_trees<double>,
                                      walk_row, kMostRowRanks, kSliceChunks, kLeavesAreWords,  kSaysLeft,
                                      kRankingOfTop, kRankingOfLarge};

}  // namespace scurry::SCURRY_ISA
