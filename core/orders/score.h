// Scorer: how well a state answers, as a smooth function, for searches whose order will be judged on other rows.
//
// The number of right rows jumps whenever the margin of a row crosses 0. The score adds to it, for each row, (1 + x /
// (1 + |x|)) / 2 with x = steepness times the smallest margin of the row: being nearly right counts nearly half. The
// score of a regressor is minus its squared error.
#pragma once

#include "orders/descent.h"

namespace scurry {

// One number per row and margin in a layout for vector loops: [tile][margin][row of the tile].
using Tiles = std::vector<std::int32_t>;

class Scorer {
 public:
  Scorer(const Descent& descent, double steepness);

  const Descent& descent() const { return descent_; }

  // The margins before the first step.
  Tiles start() const;

  // What the step of `tree` to `level` adds to the margins; the step back up takes it away.
  Tiles changes(std::size_t tree, std::size_t level, bool down = true);

  // The score of margins, after changes if there are any.
  double score(const Tiles& margins, const Tiles* changes = nullptr) const;

  // The same in parts: the score of a state is score_of(the sum over its tiles, in order). A tile has tile_size()
  // numbers; changes may be null.
  std::size_t n_tiles() const;
  std::size_t tile_size() const { return no_changes_.size(); }
  double sum_of_tile(std::size_t tile, const std::int32_t* margins, const std::int32_t* changes) const;
  double score_of(double sum) const;

 private:
  Tiles tile_rows(const std::vector<std::int32_t>& by_row, std::int32_t sign) const;

  const Descent& descent_;
  float steepness_;
  std::vector<std::uint32_t> change_of_leaf_;
  std::vector<std::int32_t> by_row_;
  Tiles no_changes_;  // of one tile
};

// sum[0..n) = a[0..n) + b[0..n)
void add(const std::int32_t* a, const std::int32_t* b, std::size_t n, std::int32_t* sum);

inline void add(const Tiles& changes, Tiles& margins) {
  add(margins.data(), changes.data(), margins.size(), margins.data());
}

}  // namespace scurry
