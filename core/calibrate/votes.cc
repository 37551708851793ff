// The sweep from the last vote to the first, and the outcome of a rule for every number of positive voters.
#include "calibrate/votes.h"

#include <algorithm>
#include <numeric>

namespace scurry {
namespace {

// Smaller weights count as 0, because denormal numbers would make the sweep a hundred times slower.
constexpr double kNothing = 1e-280;

double or_nothing(double weight) { return weight < kNothing ? 0.0 : weight; }

// Computes row i of a measure from row i + 1, in place: as votes are exchangeable, it is a convex average of the two
// states that follow.
void average_measure(double* row, const double* negative, const double* positive, std::size_t first, std::size_t last) {
  for (std::size_t j = first; j <= last; ++j) row[j] = or_nothing(negative[j] * row[j] + positive[j] * row[j + 1]);
}

void average_value(double* row, const double* negative, const double* positive, std::size_t first, std::size_t last) {
  for (std::size_t j = first; j <= last; ++j) row[j] = negative[j] * row[j] + positive[j] * row[j + 1];
}

void add_scaled(double* sum, double scale, const double* row, std::size_t begin, std::size_t end) {
  for (std::size_t j = begin; j < end; ++j) sum[j] += scale * row[j];
}

// 0, 1, 2, ... as doubles. Converting integers inside the loops would prevent their vectorisation.
std::vector<double> counts(std::size_t n) {
  std::vector<double> ramp(n);
  std::iota(ramp.begin(), ramp.end(), 0.0);
  return ramp;
}

// The probabilities that vote i + 1 is negative or positive at (i, j) if all n are equally likely: (i + 1 - j, j + 1) /
// (i + 2).
void next_vote_chances(std::size_t i, std::size_t first, std::size_t last, const double* count, double* negative,
                       double* positive) {
  const auto total = static_cast<double>(i + 2);
  const double scale = 1.0 / total;
  for (std::size_t j = first; j <= last; ++j) {
    positive[j] = count[j + 1] * scale;
    negative[j] = (total - count[j + 1]) * scale;
  }
}

}  // namespace

// The row of states being worked on, indexed by j.
struct VoteSweep::Rows {
  Rows(std::size_t n_measures, std::size_t width)
      : measure(n_measures, std::vector<double>(width)),
        value(n_measures, std::vector<double>(width)),
        negative(width),
        positive(width),
        stop_cost(width),
        continue_cost(width),
        count(counts(width)) {}

  std::vector<std::vector<double>> measure;      // weight m_ij per measure
  std::vector<std::vector<double>> value;        // per measure, the votes or disagreement still to come from (i, j) on
  std::vector<double> negative, positive;        // probabilities of the next vote
  std::vector<double> stop_cost, continue_cost;  // the priced cost of each action
  std::vector<double> count;                     // 0, 1, 2, ...
  std::size_t lowest = 0, highest = 0;           // the states in which the outcome is open
  std::size_t first = 0, last = 0;               // a range that contains all states that continue
};

VoteSweep::VoteSweep(std::size_t n_voters, std::span<const double> time_measures, std::span<const double> risk_measures)
    : n_voters_(n_voters), largest_negative_(n_voters / 2), n_time_(time_measures.size() / (n_voters + 1)) {
  for (const std::span<const double> rows : {time_measures, risk_measures}) {
    for (std::size_t start = 0; start < rows.size(); start += n_voters + 1) {
      measures_.push_back(measure_of(rows.subspan(start, n_voters + 1)));
    }
  }
}

VoteSweep::Measure VoteSweep::measure_of(std::span<const double> weights) const {
  const std::size_t n = n_voters_, needed_positive = largest_negative_ + 1, needed_negative = n - largest_negative_;
  Measure measure{std::vector<double>(n + 1), std::vector<double>(n + 1), false};
  measure.risks_positive_answer =
      std::any_of(weights.begin(), weights.begin() + needed_positive, [](double weight) { return weight > 0.0; });
  std::vector<double> row(n + 2), negative(n + 1), positive(n + 1), count = counts(n + 2);
  for (std::size_t j = 0; j <= n; ++j) row[j] = weights[j] * static_cast<double>(n + 1);
  for (std::size_t i = n;; --i) {
    if (i >= needed_positive) measure.certain_positive[i] = row[needed_positive];
    if (i >= needed_negative) measure.certain_negative[i] = row[i - needed_negative];
    if (i < needed_positive && i < needed_negative) return measure;
    next_vote_chances(i - 1, 0, i - 1, count.data(), negative.data(), positive.data());
    average_measure(row.data(), negative.data(), positive.data(), 0, i - 1);
  }
}

// Moves every measure from row i + 1 to the open states of row i.
void VoteSweep::average(Rows& rows, std::size_t i) const {
  const std::size_t needed_positive = largest_negative_ + 1, needed_negative = n_voters_ - largest_negative_;
  for (std::size_t k = 0; k < measures_.size(); ++k) {
    if (i + 1 >= needed_positive) rows.measure[k][needed_positive] = measures_[k].certain_positive[i + 1];
    if (i + 1 >= needed_negative) {
      rows.measure[k][i + 1 - needed_negative] = measures_[k].certain_negative[i + 1];
      rows.value[k][i + 1 - needed_negative] = 0.0;
    }
  }
  rows.lowest = i + 1 > needed_negative ? i + 1 - needed_negative : 0;
  rows.highest = std::min(i, largest_negative_);
  next_vote_chances(i, rows.lowest, rows.highest, rows.count.data(), rows.negative.data(), rows.positive.data());
  for (std::vector<double>& row : rows.measure) {
    average_measure(row.data(), rows.negative.data(), rows.positive.data(), rows.lowest, rows.highest);
  }
}

// Prices stopping and continuing at the states [first, last] of a row. From `split` on, stopping answers positive.
void VoteSweep::price(Rows& rows, std::size_t first, std::size_t split, std::size_t last,
                      std::span<const double> prices) const {
  std::fill(rows.stop_cost.begin() + first, rows.stop_cost.begin() + last + 1, 0.0);
  std::fill(rows.continue_cost.begin() + first, rows.continue_cost.begin() + last + 1, 0.0);
  for (std::size_t k = 0; k < measures_.size(); ++k) {
    double* value = rows.value[k].data();
    const double* measure = rows.measure[k].data();
    average_value(value, rows.negative.data(), rows.positive.data(), first, last);
    if (k < n_time_) {
      add_scaled(value, 1.0, measure, first, last + 1);
    } else if (measures_[k].risks_positive_answer) {
      add_scaled(rows.stop_cost.data(), prices[k], measure, split, last + 1);
    } else {
      add_scaled(rows.stop_cost.data(), prices[k], measure, first, split);
    }
    add_scaled(rows.continue_cost.data(), prices[k], value, first, last + 1);
  }
}

// Chooses the cheaper action in row i.
//
// If both following states stop and give the same answer, one more vote gains nothing. So only the neighbours of states
// that continue, and the one state whose followers answer differently, have to be looked at.
void VoteSweep::decide(Rows& rows, std::size_t i, std::span<const double> prices, VotePolicy& policy,
                       std::span<std::uint8_t> stops) const {
  const std::size_t between = (i + 1) / 2;
  const std::size_t first = std::max(rows.lowest, std::min(between, rows.first - (rows.first > 0)));
  const std::size_t last = std::min(rows.highest, std::max(between, rows.last));
  const std::size_t split = std::clamp(i / 2 + 1, first, last + 1);
  price(rows, first, split, last, prices);

  const auto stops_at = [&](std::size_t j) { return rows.stop_cost[j] < rows.continue_cost[j]; };
  const auto stop_at = [&](std::size_t j) {
    for (std::size_t k = 0; k < measures_.size(); ++k) {
      const bool disagrees = k >= n_time_ && measures_[k].risks_positive_answer == (2 * j > i);
      rows.value[k][j] = disagrees ? rows.measure[k][j] : 0.0;
    }
  };
  std::size_t upper = split, lower = split;
  while (upper <= last && !stops_at(upper)) ++upper;
  while (lower > first && !stops_at(lower - 1)) --lower;
  policy.upper[i] = static_cast<std::int32_t>(upper);
  policy.lower[i] = static_cast<std::int32_t>(lower) - 1;

  rows.first = rows.last = between;
  for (std::size_t j = first; j <= last; ++j) {
    if (stops_at(j)) {
      stop_at(j);
      continue;
    }
    if (!stops.empty()) stops[i * (n_voters_ + 1) + j] = 0;
    if (rows.stop_cost[j] > 0.0) {
      rows.first = std::min(rows.first, j);
      rows.last = std::max(rows.last, j);
    }
  }
  if (first > rows.lowest) stop_at(first - 1);  // because the next row looks one state further
  if (last < rows.highest) stop_at(last + 1);
}

PricedPolicy VoteSweep::cheapest(std::span<const double> time_price, std::span<const double> risk_price,
                                 std::span<std::uint8_t> stops) const {
  std::vector<double> prices(time_price.begin(), time_price.end());
  prices.insert(prices.end(), risk_price.begin(), risk_price.end());
  VotePolicy policy{std::vector<std::int32_t>(n_voters_ + 1), std::vector<std::int32_t>(n_voters_ + 1)};
  policy.lower[n_voters_] = static_cast<std::int32_t>(largest_negative_);
  policy.upper[n_voters_] = static_cast<std::int32_t>(largest_negative_ + 1);
  std::fill(stops.begin(), stops.end(), std::uint8_t{1});
  Rows rows(measures_.size(), largest_negative_ + 3);
  rows.first = rows.last = (n_voters_ + 1) / 2;
  for (std::size_t i = n_voters_; i-- > 0;) {
    average(rows, i);
    decide(rows, i, prices, policy, stops);
  }
  PricedPolicy result{std::move(policy), {}, {}};
  for (std::size_t k = 0; k < measures_.size(); ++k) {
    (k < n_time_ ? result.time : result.risk).push_back(rows.value[k][0]);
  }
  return result;
}

namespace {

// A quantity given that j of the first i votes are positive, by j. Moving to i + 1 votes is a convex average: the last
// of them is positive with probability j / (i + 1). Row N is the quantity for every n at once.
class Conditional {
 public:
  explicit Conditional(std::size_t n_voters) : row_(n_voters + 2), next_(n_voters + 2) {}

  double& operator[](std::size_t j) { return row_[j]; }

  void add_vote(std::size_t i, const std::vector<double>& count) {
    const auto total = static_cast<double>(i + 1);
    const double scale = 1.0 / total;
    next_[0] = row_[0];
    const double *row = row_.data(), *ramp = count.data();
    double* next = next_.data();
    for (std::size_t j = 1; j <= i + 1; ++j) {
      next[j] = or_nothing(((total - ramp[j]) * row[j] + ramp[j] * row[j - 1]) * scale);
    }
    row_.swap(next_);
  }

 private:
  std::vector<double> row_, next_;
};

}  // namespace

void vote_outcomes(std::size_t n_voters, std::span<const double> weight, std::span<const std::int32_t> lower,
                   std::span<const std::int32_t> upper, std::span<double> votes, std::span<double> disagreement) {
  const std::size_t n = n_voters;
  const std::vector<double> count = counts(n + 2);
  Conditional expected_votes(n), said_negative(n), said_positive(n);
  std::vector<Conditional> reached(weight.size(), Conditional(n));
  for (Conditional& row : reached) row[0] = 1.0;
  for (std::size_t i = 0;; ++i) {
    for (std::size_t k = 0; k < weight.size(); ++k) {
      const std::int32_t low = lower[k * (n + 1) + i], high = upper[k * (n + 1) + i];
      for (std::size_t j = 0; j <= i; ++j) {
        double& here = reached[k][j];
        if (here == 0.0) continue;
        const auto positives = static_cast<std::int32_t>(j);
        const bool stops = positives <= low || positives >= high || i == n;
        (!stops ? expected_votes : 2 * j > i ? said_positive : said_negative)[j] += weight[k] * here;
        if (stops) here = 0.0;
      }
      if (i < n) reached[k].add_vote(i, count);
    }
    if (i == n) break;
    for (Conditional* row : {&expected_votes, &said_negative, &said_positive}) row->add_vote(i, count);
  }
  for (std::size_t positives = 0; positives <= n; ++positives) {
    votes[positives] = expected_votes[positives];
    disagreement[positives] = 2 * positives > n ? said_negative[positives] : said_positive[positives];
  }
}

}  // namespace scurry
