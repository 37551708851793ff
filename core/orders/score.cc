// Lays margins out in tiles and scores them.
#include "orders/score.h"

#include <algorithm>

#include "kernels/kernels.h"

namespace scurry {

namespace {

double squares_of(const std::int32_t* residuals, const std::int32_t* changes, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double residual = static_cast<double>(residuals[i]) + changes[i];
    sum += residual * residual;
  }
  return sum;
}

}  // namespace

Scorer::Scorer(const Descent& descent, double steepness)
    : descent_(descent),
      steepness_(static_cast<float>(steepness)),
      change_of_leaf_(descent.n_leaves()),
      by_row_(descent.n_rows() * descent.n_margins()),
      no_changes_(kScoreRows * descent.n_margins(), 0) {}

Tiles Scorer::tile_rows(const std::vector<std::int32_t>& by_row, std::int32_t sign) const {
  const std::size_t n_rows = descent_.n_rows(), n_margins = descent_.n_margins();
  Tiles tiles(n_tiles() * tile_size(), 0);
  for (std::size_t first = 0; first < n_rows; first += kScoreRows) {
    for (std::size_t m = 0; m < n_margins; ++m) {
      std::int32_t* tile = &tiles[first * n_margins + m * kScoreRows];
      for (std::size_t row = first; row < std::min(first + kScoreRows, n_rows); ++row) {
        tile[row - first] = sign * by_row[row * n_margins + m];
      }
    }
  }
  return tiles;
}

Tiles Scorer::start() const { return tile_rows(descent_.start(), 1); }

Tiles Scorer::changes(std::size_t tree, std::size_t level, bool down) {
  descent_.read_step(tree, level, change_of_leaf_.data());
  descent_.changes(tree, change_of_leaf_.data(), 0, descent_.n_rows(), by_row_.data());
  return tile_rows(by_row_, down ? 1 : -1);
}

double Scorer::score(const Tiles& margins, const Tiles* changes) const {
  double sum = 0;
  for (std::size_t tile = 0; tile < n_tiles(); ++tile) {
    const std::size_t at = tile * tile_size();
    sum += sum_of_tile(tile, &margins[at], changes == nullptr ? nullptr : &(*changes)[at]);
  }
  return score_of(sum);
}

std::size_t Scorer::n_tiles() const { return (descent_.n_rows() + kScoreRows - 1) / kScoreRows; }

double Scorer::sum_of_tile(std::size_t tile, const std::int32_t* margins, const std::int32_t* changes) const {
  const std::size_t n = std::min(kScoreRows, descent_.n_rows() - tile * kScoreRows);
  if (changes == nullptr) changes = no_changes_.data();
  if (descent_.regression()) return squares_of(margins, changes, n);
  return kernels().states.score(margins, changes, n, descent_.n_margins(), steepness_);
}

double Scorer::score_of(double sum) const {
  return descent_.regression() ? -sum : sum / kScoreOfRight + 0.5 * static_cast<double>(descent_.n_rows());
}

void add(const std::int32_t* a, const std::int32_t* b, std::size_t n, std::int32_t* sum) {
  kernels().states.add(a, b, n, sum);
}

}  // namespace scurry
