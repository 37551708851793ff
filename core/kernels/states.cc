// Counts and sums over many rows and states, for searches for step orders (orders/grid.h and orders/score.h).
#include <cmath>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {
namespace {

void add(const std::int32_t* a, const std::int32_t* b, std::size_t n, std::int32_t* sum) {
  for (std::size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

std::int32_t score(const std::int32_t* margins, const std::int32_t* changes, std::size_t n, std::size_t n_margins,
                   float steepness) {
  std::int32_t least[kScoreRows];
  for (std::size_t i = 0; i < n; ++i) least[i] = margins[i] + changes[i];
  for (std::size_t m = 1; m < n_margins; ++m) {
    const std::int32_t *margin = margins + m * kScoreRows, *change = changes + m * kScoreRows;
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t other = margin[i] + change[i];
      least[i] = other < least[i] ? other : least[i];
    }
  }
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const float x = steepness * static_cast<float>(least[i]);
    const auto nearly = static_cast<std::int32_t>(x / (1.0f + std::fabs(x)) * (kScoreOfRight / 2));
    sum += nearly + (least[i] > 0 ? kScoreOfRight : 0);
  }
  return sum;
}

// Three states in one pass, so that `sum` is read once.
[[gnu::always_inline]] inline void count_three(const std::int32_t* sum, const std::int32_t* const needed[3],
                                               std::size_t n, u32 right[3]) {
  u32 x = 0, y = 0, z = 0;
  for (std::size_t i = 0; i < n; ++i) {
    x += sum[i] > needed[0][i];
    y += sum[i] > needed[1][i];
    z += sum[i] > needed[2][i];
  }
  right[0] = x;
  right[1] = y;
  right[2] = z;
}

[[gnu::always_inline]] inline u32 count_rivals(const StateBlock& block, const std::int32_t* sum,
                                               const std::int32_t* needed, std::int32_t* least) {
  const std::size_t n_rows = block.slots[0];
  for (std::size_t i = 0; i < n_rows; ++i) least[i] = sum[i] - needed[i];
  for (std::size_t s = 1; s < block.slots.size(); ++s) {
    const std::size_t begin = block.slots[s - 1], n = block.slots[s] - begin;
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t other = sum[begin + i] - needed[begin + i];
      least[i] = other < least[i] ? other : least[i];
    }
  }
  u32 wrong = 0;
  for (std::size_t i = 0; i < n_rows; ++i) wrong += least[i] <= 0;
  return wrong;
}

void count_wrong(const StateBlock& block, std::int32_t* sum, std::int32_t* least, u32* out) {
  const std::size_t n = block.slots.back(), n_c = block.n_levels[2];
  for (std::size_t a = 0; a < block.n_levels[0]; ++a) {
    for (std::size_t b = 0; b < block.n_levels[1]; ++b, out += n_c) {
      const std::int32_t *move_a = block.moves[0] + a * n, *move_b = block.moves[1] + b * n;
      for (std::size_t i = 0; i < n; ++i) sum[i] = block.margin[i] + move_a[i] + move_b[i];
      for (std::size_t c = 0; c < n_c; c += block.slots.size() == 1 ? 3 : 1) {
        const std::int32_t* needed = block.moves[2] + c * n;
        if (block.slots.size() > 1) {
          out[c] = block.wrong + count_rivals(block, sum, needed, least);
          continue;
        }
        const std::int32_t* second = c + 1 < n_c ? needed + n : needed;
        const std::int32_t* const three[3] = {needed, second, c + 2 < n_c ? second + n : second};
        u32 right[3];
        count_three(sum, three, n, right);
        for (std::size_t i = 0; i < 3 && c + i < n_c; ++i) {
          out[c + i] = block.wrong + static_cast<u32>(n) - right[i];
        }
      }
    }
  }
}

}  // namespace

const StateKernels kStateKernels = {add, score, count_wrong};

}  // namespace scurry::SCURRY_ISA
