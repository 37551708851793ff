// Margins of rows against several rival classes, for searches for step orders (orders/rivals.h).
#include <algorithm>
#include <array>
#include <bit>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {
namespace {

// Margins are added as unsigned numbers: they fit in 32 bits, but a change alone may not, and wraps round.
#if defined(__AVX512F__)
using Narrow [[gnu::vector_size(32), gnu::may_alias]] = u32;
using Wide = Vector;
#elif defined(__AVX2__)
using Narrow [[gnu::vector_size(32), gnu::may_alias]] = u32;
using Wide = Narrow;
#else
using Narrow [[gnu::vector_size(16), gnu::may_alias]] = u32;
using Wide = Narrow;
#endif

constexpr std::size_t kNarrow = sizeof(Narrow) / sizeof(u32), kWide = sizeof(Wide) / sizeof(u32);

inline Narrow smaller(Narrow a, Narrow b) {
#if defined(__AVX2__)
  return reinterpret_cast<Narrow>(_mm256_min_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  using Integers [[gnu::vector_size(16)]] = std::int32_t;
  const auto a_is_smaller = reinterpret_cast<Narrow>(reinterpret_cast<Integers>(a) < reinterpret_cast<Integers>(b));
  return (a & a_is_smaller) | (b & ~a_is_smaller);
#endif
}

inline bool any_negative(Narrow lanes) {
#if defined(__AVX2__)
  return _mm256_movemask_ps(reinterpret_cast<__m256>(lanes)) != 0;
#else
  bool any = false;
  for (std::size_t lane = 0; lane < kNarrow; ++lane) any |= static_cast<std::int32_t>(lanes[lane]) < 0;
  return any;
#endif
}

#if defined(__AVX512F__)
inline Wide smaller(Wide a, Wide b) {
  const auto x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(b);
  return reinterpret_cast<Wide>(_mm512_maskz_min_epi32(0xFFFF, x, y));
}

inline bool any_negative(Wide lanes) { return _mm512_movepi32_mask(reinterpret_cast<__m512i>(lanes)) != 0; }
#endif

// Computes the margins of one row after a change: `visit` gets each vector, and the smallest margin of each lane is
// returned. kVectors = 0: the number of vectors is read at run time.
template <class Lanes, std::size_t kVectors, class Visit>
inline Lanes margins_after(const RivalSteps& steps, std::size_t leaf, const Lanes* before, std::size_t own,
                           Visit visit) {
  const std::size_t vectors = kVectors ? kVectors : steps.width * sizeof(u32) / sizeof(Lanes);
  const auto* change = reinterpret_cast<const Lanes*>(steps.changes) + steps.change_of_leaf[leaf] * vectors;
  const u32 change_of_own = reinterpret_cast<const u32*>(change)[own];
  Lanes least = before[0] + (change_of_own - change[0]);
  visit(0, least);
  for (std::size_t v = 1; v < vectors; ++v) {
    const Lanes after = before[v] + (change_of_own - change[v]);
    visit(v, after);
    least = smaller(least, after);
  }
  return least;
}

#if defined(__AVX2__)
inline __m256i fold(Narrow lanes) { return reinterpret_cast<__m256i>(lanes); }

#if defined(__AVX512F__)
inline __m256i fold(Wide lanes) {
  return reinterpret_cast<__m256i>(smaller(__builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7),
                                           __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15)));
}
#endif

// The smallest lane of each of eight rows.
template <class Lanes>
inline __m256i least_of_each(const Lanes (&rows)[kRivalsTogether]) {
  static_assert(kRivalsTogether == 8);
  __m256i pair[4], four[2];
  for (std::size_t i = 0; i < 4; ++i) {
    const __m256i a = fold(rows[2 * i]), b = fold(rows[2 * i + 1]);
    pair[i] = _mm256_min_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const __m256i ab = pair[2 * i], cd = pair[2 * i + 1];
    four[i] = _mm256_min_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  }
  return _mm256_min_epi32(_mm256_permute2x128_si256(four[0], four[1], 0x20),
                          _mm256_permute2x128_si256(four[0], four[1], 0x31));
}
#else
inline std::array<std::int32_t, kRivalsTogether> least_of_each(const Narrow (&rows)[kRivalsTogether]) {
  std::array<std::int32_t, kRivalsTogether> least;
  for (std::size_t i = 0; i < kRivalsTogether; ++i) {
    least[i] = static_cast<std::int32_t>(rows[i][0]);
    for (std::size_t v = 1; v < kNarrow; ++v) least[i] = std::min(least[i], static_cast<std::int32_t>(rows[i][v]));
  }
  return least;
}
#endif

struct Sorted {
  u32* open;
  std::size_t n_open = 0, n_lost = 0;
};

// Sorts rows from `row` on into open, safe and lost ones by the smallest margins of their lanes.
template <class Lanes>
inline void sort_out(const Lanes (&lanes)[kRivalsTogether], const RivalBounds& bounds, std::size_t row,
                     Sorted& sorted) {
#if defined(__AVX512F__)
  const __m256i least = least_of_each(lanes);
  const __mmask8 is_lost = _mm256_cmplt_epi32_mask(least, _mm256_loadu_epi32(bounds.lost + row));
  const __mmask8 is_safe = _mm256_cmpge_epi32_mask(least, _mm256_loadu_epi32(bounds.safe + row));
  const auto is_open = static_cast<__mmask8>(~(is_lost | is_safe));
  const __m256i rows =
      _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(row)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  _mm256_storeu_epi32(sorted.open + sorted.n_open, _mm256_maskz_compress_epi32(is_open, rows));
  sorted.n_open += static_cast<std::size_t>(std::popcount(is_open));
  sorted.n_lost += static_cast<std::size_t>(std::popcount(is_lost));
#else
  const auto least = std::bit_cast<std::array<std::int32_t, kRivalsTogether>>(least_of_each(lanes));
  for (std::size_t i = 0; i < kRivalsTogether; ++i) {
    const bool is_lost = least[i] < bounds.lost[row + i];
    sorted.open[sorted.n_open] = static_cast<u32>(row + i);
    sorted.n_open += (least[i] < bounds.safe[row + i]) & !is_lost;
    sorted.n_lost += is_lost;
  }
#endif
}

template <class Lanes, std::size_t kVectors>
std::size_t take_wide(const RivalSteps& steps, const u32* leaf, const RivalBounds& bounds, std::size_t n,
                      std::int32_t* margins, u32* open, std::size_t* n_lost) {
  const std::size_t vectors = kVectors ? kVectors : steps.width * sizeof(u32) / sizeof(Lanes);
  const auto taken = [&](std::size_t row) {
    Lanes* margins_of_row = reinterpret_cast<Lanes*>(margins) + row * vectors;
    return margins_after<Lanes, kVectors>(steps, leaf[row], margins_of_row, steps.own[row],
                                          [=](std::size_t v, Lanes after) { margins_of_row[v] = after; });
  };
  Sorted sorted{open};
  Lanes least[kRivalsTogether];
  const std::size_t n_whole = n - n % kRivalsTogether;
  for (std::size_t row = 0; row < n_whole; row += kRivalsTogether) {
    for (std::size_t i = 0; i < kRivalsTogether; ++i) least[i] = taken(row + i);
    sort_out(least, bounds, row, sorted);
  }
  if (n_whole < n) {
    std::fill_n(least, kRivalsTogether, Lanes{} + 0x7FFFFFFFu);  // neither open nor lost
    for (std::size_t row = n_whole; row < n; ++row) least[row - n_whole] = taken(row);
    sort_out(least, bounds, n_whole, sorted);
  }
  *n_lost = sorted.n_lost;
  return sorted.n_open;
}

// Counts for several trees at once, so that the margins of a row are read only once.
template <class Lanes, std::size_t kVectors, std::size_t kTrees>
void count_trees(const RivalSteps& steps, const u32* const* leaves, const u32* open, std::size_t n,
                 const std::int32_t* margins, std::size_t* wrong) {
  const std::size_t vectors = kVectors ? kVectors : steps.width * sizeof(u32) / sizeof(Lanes);
  std::size_t n_wrong[kTrees] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t row = open[i], own = steps.own[row];
    const Lanes* before = reinterpret_cast<const Lanes*>(margins) + row * vectors;
    for (std::size_t tree = 0; tree < kTrees; ++tree) {
      const auto least =
          margins_after<Lanes, kVectors>(steps, leaves[tree][row], before, own, [](std::size_t, Lanes) {});
      n_wrong[tree] += any_negative(least);
    }
  }
  for (std::size_t tree = 0; tree < kTrees; ++tree) wrong[tree] += n_wrong[tree];
}

template <class Lanes, std::size_t kVectors>
void count_wide(const RivalSteps& steps, const u32* const* leaves, std::size_t n_trees, const u32* open, std::size_t n,
                const std::int32_t* margins, std::size_t* wrong) {
  std::size_t tree = 0;
  for (; tree + 2 <= n_trees; tree += 2) {
    count_trees<Lanes, kVectors, 2>(steps, leaves + tree, open, n, margins, wrong + tree);
  }
  if (tree < n_trees) count_trees<Lanes, kVectors, 1>(steps, leaves + tree, open, n, margins, wrong + tree);
}

std::size_t take(const RivalSteps& steps, const u32* leaf, const RivalBounds& bounds, std::size_t n,
                 std::int32_t* margins, u32* open, std::size_t* n_lost) {
  switch (steps.width) {
    case 8: return take_wide<Narrow, 8 / kNarrow>(steps, leaf, bounds, n, margins, open, n_lost);
    case 16: return take_wide<Wide, 16 / kWide>(steps, leaf, bounds, n, margins, open, n_lost);
    case 32: return take_wide<Wide, 32 / kWide>(steps, leaf, bounds, n, margins, open, n_lost);
    default: return take_wide<Wide, 0>(steps, leaf, bounds, n, margins, open, n_lost);
  }
}

void count(const RivalSteps& steps, const u32* const* leaves, std::size_t n_trees, const u32* open, std::size_t n,
           const std::int32_t* margins, std::size_t* wrong) {
  switch (steps.width) {
    case 8: return count_wide<Narrow, 8 / kNarrow>(steps, leaves, n_trees, open, n, margins, wrong);
    case 16: return count_wide<Wide, 16 / kWide>(steps, leaves, n_trees, open, n, margins, wrong);
    case 32: return count_wide<Wide, 32 / kWide>(steps, leaves, n_trees, open, n, margins, wrong);
    default: return count_wide<Wide, 0>(steps, leaves, n_trees, open, n, margins, wrong);
  }
}

void find_extremes(const std::int32_t* changes, std::size_t width, std::size_t n, Extremes* extremes) {
  for (std::size_t at = 0; at < n; ++at, changes += width) {
    std::int32_t least = changes[0], most = changes[0];
    for (std::size_t lane = 0; lane < width; ++lane) {
      least = std::min(least, changes[lane]);
      most = std::max(most, changes[lane]);
    }
    extremes[at] = {least, most};
  }
}

void bound_leaves(const TreeChanges& tree, const std::int32_t* changes, const Extremes* extremes, std::size_t width,
                  std::int32_t* safe, std::int32_t* lost) {
  constexpr u32 kMost = 0x7FFFFFFFu;  // a bound beyond all margins is as good as the largest margin
  for (std::size_t at = tree.begin; at < tree.end; ++at) {
    const auto least = static_cast<u32>(extremes[at].least), most = static_cast<u32>(extremes[at].most);
    const std::size_t first = tree.reach[at].first - tree.first_leaf;
    for (std::size_t leaf = first; leaf < first + tree.reach[at].count; ++leaf) {
      std::int32_t *safe_of_leaf = safe + leaf * width, *lost_of_leaf = lost + leaf * width;
      for (std::size_t lane = 0; lane < width; ++lane) {
        const auto own = static_cast<u32>(changes[at * width + lane]);
        const u32 fall = std::min(most - own, kMost), rise = std::min(own - least, kMost);
        safe_of_leaf[lane] = std::max(safe_of_leaf[lane], static_cast<std::int32_t>(fall));
        lost_of_leaf[lane] = std::min(lost_of_leaf[lane], -static_cast<std::int32_t>(rise));
      }
    }
  }
}

}  // namespace

const RivalKernels kRivalKernels = {find_extremes, bound_leaves, take, count};

}  // namespace scurry::SCURRY_ISA
