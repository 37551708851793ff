// Sequential majority votes: the Lagrangian sweep that solves them, and the exact outcome of a rule.
//
// N voters vote in random order, and n of them are positive. A state (i, j) is reached when j of the first i votes are
// positive. Stopping there answers "positive" iff 2 j > i; the full vote does iff 2 n > N.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace scurry {

// Stop at (i, j) iff j <= lower[i] or j >= upper[i]; both have N + 1 entries.
struct VotePolicy {
  std::vector<std::int32_t> lower, upper;
};

struct PricedPolicy {
  VotePolicy policy;
  std::vector<double> time, risk;
};

// Finds the policy of least priced cost. Costs are measured by weights over n: a time measure M counts sum_n M[n]
// E[votes | n], a risk measure counts sum_n M[n] Pr(disagree | n). A risk measure lies on one side: its weight is on 2
// n <= N or on 2 n > N.
class VoteSweep {
 public:
  // Measures are rows of n_voters + 1 weights.
  VoteSweep(std::size_t n_voters, std::span<const double> time_measures, std::span<const double> risk_measures);

  std::size_t n_time() const { return n_time_; }
  std::size_t n_risk() const { return measures_.size() - n_time_; }
  std::size_t n_voters() const { return n_voters_; }

  // The policy that minimises sum_k time_price[k] time[k] + sum_k risk_price[k] risk[k], and its time and risk. Its
  // thresholds are the stopping states nearest to the middle of each row. Risk measures that mix point masses with a
  // distribution can make it continue again further out; `stops`, if not empty, receives the decision of all (N + 1) x
  // (N + 1) states.
  PricedPolicy cheapest(std::span<const double> time_price, std::span<const double> risk_price,
                        std::span<std::uint8_t> stops = {}) const;

 private:
  // Weights m_ij = (i + 1) sum_n M_n Pr(j of the first i are positive | n), kept for the states in which the outcome
  // has just become certain.
  struct Measure {
    std::vector<double> certain_negative, certain_positive;  // by i, at the first certain j
    bool risks_positive_answer;                              // its weight is on 2 n <= N
  };
  struct Rows;

  Measure measure_of(std::span<const double> weights) const;
  void average(Rows& rows, std::size_t i) const;
  void price(Rows& rows, std::size_t first, std::size_t split, std::size_t last, std::span<const double> prices) const;
  void decide(Rows& rows, std::size_t i, std::span<const double> prices, VotePolicy& policy,
              std::span<std::uint8_t> stops) const;

  std::size_t n_voters_, largest_negative_, n_time_;  // largest_negative_: the largest n whose full vote is negative
  std::vector<Measure> measures_;                     // time measures first
};

// E[votes | n] and Pr(disagree | n) for every n of the mixture that draws policy k with weight[k] once per vote. lower
// and upper hold one row of n_voters + 1 thresholds per policy; votes and disagreement n_voters + 1 entries.
void vote_outcomes(std::size_t n_voters, std::span<const double> weight, std::span<const std::int32_t> lower,
                   std::span<const std::int32_t> upper, std::span<double> votes, std::span<double> disagreement);

}  // namespace scurry
