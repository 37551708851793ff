// ScoreMap: estimates the full model's score of rows that stopped early, from their sums over the trees evaluated.
//
// A sum becomes a score by an affine map that depends on where the row stopped and on one of two groups: with two
// classes the side on which it stopped, with more classes whether a sum is that of the leading class. The result is
// held on the side of the label, so that a score never contradicts the label, whatever the map.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scurry {

// Bounds of mapped scores. With two classes, group 0 stays at or below `highest[0]` and group 1 at or above `lowest[1]`.
// With more, every other class stays at least `margin` below the leading one.
struct ScoreBounds {
  double lowest[2], highest[2];
  double margin;
  bool sums_to_one;  // scores are probabilities, and are divided by their total
};

class ScoreMap {
 public:
  // slope and intercept are [2][n_positions].
  ScoreMap(std::vector<double> slope, std::vector<double> intercept, ScoreBounds bounds);

  std::size_t n_positions() const { return slope_.size() / 2; }
  // One sum per row; is_positive says on which side the row stopped.
  void two_classes(std::span<const std::int32_t> sums, const std::int32_t* positions, const std::uint8_t* is_positive,
                   double* out) const;
  // n_classes sums per row, of which the one of `leaders` is the largest.
  void classes(std::span<const std::int32_t> sums, const std::int32_t* positions, const std::int32_t* leaders,
               std::size_t n_classes, double* out) const;

 private:
  double at(std::size_t group, std::size_t position, std::int32_t sum) const;

  std::vector<double> slope_, intercept_;
  ScoreBounds bounds_;
};

}  // namespace scurry
