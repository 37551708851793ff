// Margins: the joint search of an evaluation order and two stopping thresholds per position ("Quit When You Can").
//
// A row leaves at a position if its running sum is at most `lower` (answered negative) or at least `upper` (answered
// positive). Scores must lie on a grid coarse enough that sums of them are exact in any order; nothing here rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace scurry {

enum class Spending : std::uint8_t { kProportional, kUpfront };
enum class Sides : std::uint8_t { kJoint, kNegativeFirst, kNegativeOnly };

struct MarginTask {
  const double* scores = nullptr;          // [n_trees][n_rows]
  std::span<const std::uint8_t> positive;  // per row: what the full ensemble decides
  std::span<const double> costs;           // per tree
  std::span<const std::int64_t> order;     // empty: search it
  std::size_t max_mistakes = 0;
  Spending spending = Spending::kProportional;
  Sides sides = Sides::kJoint;
  double slack = 0.0;  // thresholds move this far into the gap before the next row, at most a quarter of the gap

  std::size_t n_rows() const { return positive.size(); }
  std::size_t n_trees() const { return costs.size(); }
};

struct MarginFit {
  std::vector<std::int64_t> order;
  std::vector<double> lower, upper;      // one per position but the last, infinite where nobody leaves
  std::vector<std::int64_t> n_entering;  // rows that evaluate position r
  std::size_t n_mistakes = 0;
};

// Calls `between_positions(n_done)` after each position; what it throws ends the search.
MarginFit fit_margins(const MarginTask& task, const std::function<void(std::size_t)>& between_positions);

}  // namespace scurry
