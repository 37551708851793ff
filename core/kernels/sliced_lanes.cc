// Sliced trees (runtime/sliced.h): a few sums of each row, of numbers of 16 bits.
#include "kernels/slices.h"

namespace scurry::SCURRY_ISA {
namespace {

// The leaves that rows reach in kLaneTrees trees, [tree][row].
struct LeafNumbers {
  alignas(64) u8 of[kLaneTrees][kSliceRows];

  void find(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t row,
            std::size_t n_chunks, u64* slices) {
    for (std::size_t t = 0; t < trees.size(); ++t) {
      find_planes(trees[t], program, ranks, row, n_chunks, slices);
      store_leaves<kMaxPlanes>(trees[t], slices, n_chunks, of[t]);
    }
  }
};

#if defined(__AVX512F__)

constexpr bool kLanesOfLeaf = false;

// What the leaves of a tree add to one lane: 32 rows look up the numbers of 64 leaves in two registers.
struct LeafLane {
  __m512i low, high;

  explicit LeafLane(const std::int16_t* values) : low(_mm512_load_si512(values)), high(_mm512_load_si512(values + 32)) {}
  __m512i look_up(__m512i leaf) const { return _mm512_permutex2var_epi16(low, leaf, high); }
};

// The sums of a chunk's rows in one lane: those of the even rows, and those of the odd ones.
struct LaneSums {
  __m512i even = _mm512_setzero_si512(), odd = even;

  void add(const LeafLane& lane, __m512i even_leaf, __m512i odd_leaf) {
    even = _mm512_add_epi16(even, lane.look_up(even_leaf));
    odd = _mm512_add_epi16(odd, lane.look_up(odd_leaf));
  }

  void add_to(std::int32_t* sums) const {
    // With masks, because GCC 12 takes the others for uses of a variable that was never set.
    constexpr __mmask32 kAll = ~__mmask32{0};
    // Rows 0 to 7 of each 16, then the others.
    const __m512i first = _mm512_maskz_unpacklo_epi16(kAll, even, odd);
    const __m512i last = _mm512_maskz_unpackhi_epi16(kAll, even, odd);
    alignas(64) std::int16_t in_order[kChunk];
    _mm512_store_si512(in_order,
                       _mm512_permutex2var_epi64(first, _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0), last));
    _mm512_store_si512(in_order + kChunk / 2,
                       _mm512_permutex2var_epi64(first, _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4), last));
    for (std::size_t row = 0; row < kChunk; ++row) sums[row] += in_order[row];
  }
};

// Adds kLanes lanes of kChunks chunks, from `row` on.
template <std::size_t kLanes, std::size_t kChunks>
void add_some(const u8* const* leaves, std::size_t n_trees, std::size_t row, const std::int16_t* values,
              std::size_t tree_apart, std::int32_t* sums, std::size_t apart) {
  LaneSums total[kLanes][kChunks];
#pragma GCC unroll 1
  for (std::size_t t = 0; t < n_trees; ++t, values += tree_apart) {
    const u8* leaf = leaves[t] + row;
    const LeafLane first(values), last(values + (kLanes - 1) * kMaxSlicedLeaves);
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      const __m512i even = _mm512_load_si512(leaf + chunk * kChunk), odd = _mm512_srli_epi16(even, 8);
      total[0][chunk].add(first, even, odd);
      if constexpr (kLanes > 1) total[1][chunk].add(last, even, odd);
    }
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      total[lane][chunk].add_to(sums + lane * apart + row + chunk * kChunk);
    }
  }
}

void add_lanes(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
               const std::int16_t* values, std::size_t n_lanes, std::int32_t* sums, std::size_t apart,
               const u8* const* numbers, u64* slices) {
  LeafNumbers leaves;
  const u8* leaf[kLaneTrees];
  for (std::size_t row = 0; row < n; row += kSliceRows) {
    const std::size_t n_chunks = std::min(kSliceChunks, (n - row) / kChunk);
    if (numbers == nullptr) make_shared_tests(program, ranks, row, n_chunks, slices);
    for (std::size_t first = 0; first < trees.size(); first += kLaneTrees) {
      const auto some = trees.subspan(first, std::min(kLaneTrees, trees.size() - first));
      if (numbers == nullptr) leaves.find(some, program, ranks, row, n_chunks, slices);
      for (std::size_t t = 0; t < some.size(); ++t) leaf[t] = numbers ? numbers[first + t] + row : leaves.of[t];
      const auto add = [&]<std::size_t kLanes>(std::size_t lane) {
        const auto add_chunks = [&]<std::size_t kChunks>(std::size_t from) {
          add_some<kLanes, kChunks>(leaf, some.size(), from * kChunk,
                                    values + (first * n_lanes + lane) * kMaxSlicedLeaves, n_lanes * kMaxSlicedLeaves,
                                    sums + lane * apart + row, apart);
        };
        std::size_t chunk = 0;
        for (; chunk + 4 <= n_chunks; chunk += 4) add_chunks.template operator()<4>(chunk);
        for (; chunk < n_chunks; ++chunk) add_chunks.template operator()<1>(chunk);
      };
      std::size_t lane = 0;
      for (; lane + 2 <= n_lanes; lane += 2) add.template operator()<2>(lane);
      if (lane < n_lanes) add.template operator()<1>(lane);
    }
  }
}

void number(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
            u8* numbers, std::size_t apart, u64* slices) {
  for (std::size_t row = 0; row < n; row += kSliceRows) {
    const std::size_t n_chunks = std::min(kSliceChunks, (n - row) / kChunk);
    make_shared_tests(program, ranks, row, n_chunks, slices);
    for (std::size_t t = 0; t < trees.size(); ++t) {
      find_planes(trees[t], program, ranks, row, n_chunks, slices);
      store_leaves<kMaxPlanes>(trees[t], slices, n_chunks, numbers + t * apart + row);
    }
  }
}

#else

constexpr bool kLanesOfLeaf = true;
constexpr auto number = nullptr;

using Words [[gnu::vector_size(16), gnu::may_alias]] = std::int16_t;
constexpr std::size_t kWords = kLaneGroup;
static_assert(kWords * sizeof(std::int16_t) == sizeof(Words));

// Turns a matrix of 8 x 8 numbers.
inline void transpose(Words (&rows)[kWords]) {
  for (std::size_t step = 0; step < 3; ++step) {
    Words turned[kWords];
    for (std::size_t i = 0; i < kWords / 2; ++i) {
      turned[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      turned[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    std::copy_n(turned, kWords, rows);
  }
}

// A register holds kWords lanes of one row, and sums stay there over all trees.
void add_words(const LeafNumbers& leaves, std::size_t n_trees, std::size_t n, const std::int16_t* values,
               std::size_t width, std::size_t n_lanes, std::int32_t* sums, std::size_t apart) {
  for (std::size_t row = 0; row < n; row += kWords) {
    Words total[kWords] = {};
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::int16_t* of_tree = values;
      for (std::size_t t = 0; t < n_trees; ++t, of_tree += width * kMaxSlicedLeaves) {
        total[i] += *reinterpret_cast<const Words*>(of_tree + leaves.of[t][row + i] * width);
      }
    }
    transpose(total);
    for (std::size_t lane = 0; lane < n_lanes; ++lane) {
      std::int32_t* to = sums + lane * apart + row;
      for (std::size_t i = 0; i < kWords; ++i) to[i] += total[lane][i];
    }
  }
}

void add_lanes(std::span<const SlicedTree> trees, const SlicedProgram& program, const Ranks& ranks, std::size_t n,
               const std::int16_t* values, std::size_t n_lanes, std::int32_t* sums, std::size_t apart,
               const u8* const*, u64* slices) {
  const std::size_t width = (n_lanes + kWords - 1) / kWords * kWords;
  LeafNumbers leaves;
  for (std::size_t row = 0; row < n; row += kSliceRows) {
    const std::size_t n_rows = std::min(kSliceRows, n - row);
    make_shared_tests(program, ranks, row, n_rows / kChunk, slices);
    for (std::size_t first = 0; first < trees.size(); first += kLaneTrees) {
      const auto some = trees.subspan(first, std::min(kLaneTrees, trees.size() - first));
      leaves.find(some, program, ranks, row, n_rows / kChunk, slices);
      for (std::size_t lane = 0; lane < n_lanes; lane += kWords) {
        add_words(leaves, some.size(), n_rows, values + first * width * kMaxSlicedLeaves + lane, width,
                  std::min(kWords, n_lanes - lane), sums + lane * apart + row, apart);
      }
    }
  }
}

#endif

}  // namespace

const SlicedLaneKernels kSlicedLaneKernels = {add_lanes, number, kLanesOfLeaf};

}  // namespace scurry::SCURRY_ISA
