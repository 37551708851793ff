#include "kernels_isa.h"

namespace scurry::SCURRY_ISA {
namespace {

// Margins are added up without a sign, because a change alone may not fit where margins do.
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

inline bool any_below(Narrow lanes, std::int32_t bound) {
#if defined(__AVX512F__)
  return _mm256_cmplt_epi32_mask(reinterpret_cast<__m256i>(lanes), _mm256_set1_epi32(bound)) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_epi8(_mm256_cmpgt_epi32(_mm256_set1_epi32(bound), reinterpret_cast<__m256i>(lanes))) != 0;
#else
  bool any = false;
  for (std::size_t lane = 0; lane < kNarrow; ++lane) any |= static_cast<std::int32_t>(lanes[lane]) < bound;
  return any;
#endif
}

#if defined(__AVX512F__)
inline Wide smaller(Wide a, Wide b) {
  const auto x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(b);
  return reinterpret_cast<Wide>(_mm512_maskz_min_epi32(0xFFFF, x, y));
}

inline bool any_below(Wide lanes, std::int32_t bound) {
  return _mm512_cmplt_epi32_mask(reinterpret_cast<__m512i>(lanes), _mm512_set1_epi32(bound)) != 0;
}
#endif

// One row's margins after the step: vector by vector to `visit`, and the smallest of them in each lane. kVectors = 0:
// read their number at run time.
template <class Lanes, std::size_t kVectors, class Visit>
inline Lanes margins_after(const RivalStep& step, const std::int32_t* margins, std::size_t row, Visit visit) {
  const std::size_t vectors = kVectors ? kVectors : step.width * sizeof(u32) / sizeof(Lanes);
  const auto* change = reinterpret_cast<const Lanes*>(step.changes) + step.change_of_leaf[step.leaf[row]] * vectors;
  const u32 own = reinterpret_cast<const u32*>(change)[step.own];
  const auto* before = reinterpret_cast<const Lanes*>(margins) + row * vectors;
  Lanes least = before[0] + (own - change[0]);
  visit(row * vectors, least);
  for (std::size_t v = 1; v < vectors; ++v) {
    const Lanes after = before[v] + (own - change[v]);
    visit(row * vectors + v, after);
    least = smaller(least, after);
  }
  return least;
}

template <class Lanes, std::size_t kVectors>
std::size_t take_wide(const RivalStep& step, const RivalBounds& bounds, std::size_t first, std::size_t end,
                      std::int32_t* margins, u32* open, std::size_t* lost) {
  std::size_t n_open = 0, n_lost = 0;
  for (std::size_t row = first; row < end; ++row) {
    const Lanes least = margins_after<Lanes, kVectors>(
        step, margins, row, [&](std::size_t at, Lanes after) { reinterpret_cast<Lanes*>(margins)[at] = after; });
    const bool is_lost = any_below(least, bounds.lost[row]);
    open[n_open] = static_cast<u32>(row);
    n_open += any_below(least, bounds.safe[row]) & !is_lost;
    n_lost += is_lost;
  }
  *lost += n_lost;
  return n_open;
}

template <class Lanes, std::size_t kVectors>
std::size_t count_wide(const RivalStep& step, const u32* open, std::size_t n, const std::int32_t* margins) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    wrong += any_below(margins_after<Lanes, kVectors>(step, margins, open[i], [](std::size_t, Lanes) {}), 0);
  }
  return wrong;
}

std::size_t take(const RivalStep& step, const RivalBounds& bounds, std::size_t first, std::size_t end,
                 std::int32_t* margins, u32* open, std::size_t* lost) {
  switch (step.width) {
    case 8: return take_wide<Narrow, 8 / kNarrow>(step, bounds, first, end, margins, open, lost);
    case 16: return take_wide<Wide, 16 / kWide>(step, bounds, first, end, margins, open, lost);
    case 32: return take_wide<Wide, 32 / kWide>(step, bounds, first, end, margins, open, lost);
    default: return take_wide<Wide, 0>(step, bounds, first, end, margins, open, lost);
  }
}

std::size_t count(const RivalStep& step, const u32* open, std::size_t n, const std::int32_t* margins) {
  switch (step.width) {
    case 8: return count_wide<Narrow, 8 / kNarrow>(step, open, n, margins);
    case 16: return count_wide<Wide, 16 / kWide>(step, open, n, margins);
    case 32: return count_wide<Wide, 32 / kWide>(step, open, n, margins);
    default: return count_wide<Wide, 0>(step, open, n, margins);
  }
}

}  // namespace

const RivalKernels kRivalKernels = {take, count};

}  // namespace scurry::SCURRY_ISA
