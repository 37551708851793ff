// Margins: the joint search for an evaluation order and two stopping thresholds per position ("Quit When You Can").
//
// calibrate/ holds what fits stopping rules: margins.h for rules on scores, votes.h for rules on votes.
//
// A row leaves at a position if its running sum is at most `lower` (answered negative) or at least `upper` (answered
// positive). Scores must lie on a grid so coarse that sums of them are exact in any order; nothing here rounds.
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
  std::span<const std::uint8_t> positive;  // per row: the decision of the full ensemble
  std::span<const double> costs;           // per tree
  std::span<const std::int64_t> order;     // empty: it is searched for
  std::size_t max_mistakes = 0;
  Spending spending = Spending::kProportional;
  Sides sides = Sides::kJoint;
  double slack = 0.0;  // thresholds move this far towards the next row that stays, at most a quarter of the gap

  std::size_t n_rows() const { return positive.size(); }
  std::size_t n_trees() const { return costs.size(); }
};

struct MarginFit {
  std::vector<std::int64_t> order;
  std::vector<double> lower, upper;      // one per position but the last, infinite where no row leaves
  std::vector<std::int64_t> n_entering;  // rows that evaluate position r
  std::size_t n_mistakes = 0;
};

// Calls `between_positions(n_done)` after each position. An exception that it throws ends the search.
MarginFit fit_margins(const MarginTask& task, const std::function<void(std::size_t)>& between_positions);

}  // namespace scurry
