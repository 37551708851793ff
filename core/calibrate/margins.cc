// Searches position by position for the tree with the least cost per row that leaves.
#include "calibrate/margins.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace scurry {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The rows that have not left, by ascending running sum.
struct Active {
  std::vector<double> sum;
  std::vector<std::uint32_t> row;
  std::vector<std::uint8_t> positive;

  std::size_t size() const { return row.size(); }
};

struct Range {
  double least, most;
};

// The rows that one side may answer. Values are oriented so that this side answers the small ones (the upper side
// negates them). Answering every value below bar(m) makes at most m mistakes.
class Side {
 public:
  explicit Side(bool upper) : upper_(upper) {}

  // Reads the column of the candidate from the end of this side, only as far as values below bar(max_mistakes) can
  // occur.
  void scan(const Active& active, const double* column, Range range, std::size_t max_mistakes) {
    return upper_ ? scan_oriented<true>(active, column, -range.most, max_mistakes)
                  : scan_oriented<false>(active, column, range.least, max_mistakes);
  }

  // The number of rows answered if all allowed mistakes are made.
  std::size_t most_exits() const { return values_.size(); }

  // Prepares bar, exits and mistakes. This is separate because most candidates are dismissed by most_exits() alone.
  void count() {
    std::sort(bars_.begin(), bars_.end());
    exits_.assign(bars_.size() + 1, 0);
    for (double value : values_) ++exits_[std::upper_bound(bars_.begin(), bars_.end(), value) - bars_.begin()];
    std::partial_sum(exits_.begin(), exits_.end(), exits_.begin());
  }

  double bar(std::size_t m) const { return m < bars_.size() ? bars_[m] : kInf; }
  std::size_t exits(std::size_t m) const { return exits_[std::min(m, bars_.size())]; }
  std::size_t mistakes(std::size_t m) const { return mistakes_below(bar(m)); }
  std::size_t mistakes_below(double bound) const {
    return static_cast<std::size_t>(std::lower_bound(bars_.begin(), bars_.end(), bound) - bars_.begin());
  }
  std::size_t mistakes_up_to(double bound) const {
    return static_cast<std::size_t>(std::upper_bound(bars_.begin(), bars_.end(), bound) - bars_.begin());
  }
  // The largest value answered with m mistakes allowed, -inf if none.
  double last_exit(std::size_t m) const {
    double last = -kInf;
    for (double value : values_) {
      if (value < bar(m)) last = std::max(last, value);
    }
    return last;
  }

 private:
  template <bool kUpper>
  void scan_oriented(const Active& active, const double* column, double least, std::size_t max_mistakes) {
    const std::size_t n = active.size();
    double bar = kInf;
    bars_.clear();  // a heap, the largest of the max_mistakes + 1 smallest mistakes on top
    values_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = kUpper ? n - 1 - i : i;
      const double sum = kUpper ? -active.sum[at] : active.sum[at];
      if (sum + least >= bar) break;
      const double score = column[active.row[at]];
      const double value = kUpper ? sum - score : sum + score;
      if (value >= bar) continue;
      values_.push_back(value);
      if ((active.positive[at] != 0) == kUpper) continue;
      bars_.push_back(value);
      std::push_heap(bars_.begin(), bars_.end());
      if (bars_.size() > max_mistakes + 1) {
        std::pop_heap(bars_.begin(), bars_.end());
        bars_.pop_back();
      }
      if (bars_.size() > max_mistakes) bar = bars_.front();
    }
    std::erase_if(values_, [bar](double value) { return value >= bar; });
  }

  bool upper_;
  std::vector<double> bars_, values_;
  std::vector<std::size_t> exits_;
};

struct Thresholds {
  double lower = -kInf, upper = kInf;
  std::size_t n_exits = 0, n_mistakes = 0;
};

struct Choice {
  std::size_t tree;
  Thresholds thresholds;
};

class Search {
 public:
  explicit Search(const MarginTask& task) : task_(task), remaining_(task.n_trees()) {
    const std::size_t n = task.n_rows();
    active_.sum.assign(n, 0.0);
    active_.row.resize(n);
    std::iota(active_.row.begin(), active_.row.end(), 0u);
    active_.positive.assign(task.positive.begin(), task.positive.end());
    std::iota(remaining_.begin(), remaining_.end(), std::size_t{0});
    ranges_.reserve(task.n_trees());
    for (std::size_t tree = 0; tree < task.n_trees(); ++tree) {
      const auto [least, most] = std::minmax_element(column(tree), column(tree) + n);
      ranges_.push_back({*least, *most});
    }
  }

  MarginFit run(const std::function<void(std::size_t)>& between_positions) {
    for (std::size_t position = 0; position < task_.n_trees(); ++position) {
      fit_.n_entering.push_back(static_cast<std::int64_t>(active_.size()));
      const Choice choice = choose(position);
      fit_.order.push_back(static_cast<std::int64_t>(choice.tree));
      std::erase(remaining_, choice.tree);
      if (position + 1 < task_.n_trees()) leave(choice);
      between_positions(position + 1);
    }
    return std::move(fit_);
  }

 private:
  const double* column(std::size_t tree) const { return task_.scores + tree * task_.n_rows(); }

  std::size_t allowance() const {
    if (task_.spending == Spending::kUpfront) return task_.max_mistakes - fit_.n_mistakes;
    const std::size_t exited = task_.n_rows() - active_.size();
    const std::size_t earned = task_.max_mistakes * exited / task_.n_rows();
    return earned - std::min(earned, fit_.n_mistakes);
  }

  // The given tree, or the one with the least cost per row that leaves; the lowest index on ties.
  Choice choose(std::size_t position) {
    const bool search = task_.order.empty();
    Choice best{search ? remaining_.front() : static_cast<std::size_t>(task_.order[position]), {}};
    if (active_.size() == 0 || position + 1 == task_.n_trees()) return best;
    sort_active();
    const std::size_t allowed = allowance();
    if (!search) {
      scan(best.tree, allowed);
      return {best.tree, optimise(allowed)};
    }
    for (std::size_t tree : remaining_) {
      if (!cheaper(tree, scan(tree, allowed), best)) continue;
      const Thresholds found = optimise(allowed);
      if (cheaper(tree, found.n_exits, best)) best = {tree, found};
    }
    return best;
  }

  bool cheaper(std::size_t tree, std::size_t n_exits, const Choice& best) const {
    if (best.thresholds.n_exits == 0) return n_exits > 0;
    return task_.costs[tree] * static_cast<double>(best.thresholds.n_exits) <
           task_.costs[best.tree] * static_cast<double>(n_exits);
  }

  // Reads the tree's scores for both sides; returns a bound on the rows that can leave.
  std::size_t scan(std::size_t tree, std::size_t allowed) {
    negative_.scan(active_, column(tree), ranges_[tree], allowed);
    if (task_.sides == Sides::kNegativeOnly) return negative_.most_exits();
    positive_.scan(active_, column(tree), ranges_[tree], allowed);
    return std::min(active_.size(), negative_.most_exits() + positive_.most_exits());
  }

  // Finds the thresholds with the most exits, then the fewest mistakes, then the fewest of them on the negative side.
  Thresholds optimise(std::size_t allowed) {
    negative_.count();
    if (task_.sides == Sides::kNegativeOnly) {
      return {negative_.last_exit(allowed), kInf, negative_.exits(allowed), negative_.mistakes(allowed)};
    }
    positive_.count();
    if (task_.sides == Sides::kNegativeFirst) return thresholds(allowed, allowed - negative_.mistakes(allowed));
    std::size_t best = 0;
    Split best_split = split(0, allowed);
    for (std::size_t m = 1; m <= allowed; ++m) {
      const Split other = split(m, allowed - m);
      if (other.n_exits > best_split.n_exits ||
          (other.n_exits == best_split.n_exits && other.n_mistakes < best_split.n_mistakes)) {
        best = m;
        best_split = other;
      }
    }
    return thresholds(best, allowed - best);
  }

  struct Split {
    std::size_t n_exits, n_mistakes;
    bool meet;  // the sides meet: all rows leave, divided at the bar of the negative side
  };

  Split split(std::size_t m_negative, std::size_t m_positive) const {
    const double bar = negative_.bar(m_negative);
    if (-positive_.bar(m_positive) < bar) {
      return {active_.size(), negative_.mistakes(m_negative) + positive_.mistakes_up_to(-bar), true};
    }
    return {negative_.exits(m_negative) + positive_.exits(m_positive),
            negative_.mistakes(m_negative) + positive_.mistakes(m_positive), false};
  }

  Thresholds thresholds(std::size_t m_negative, std::size_t m_positive) const {
    const Split found = split(m_negative, m_positive);
    return {negative_.last_exit(m_negative), found.meet ? negative_.bar(m_negative) : -positive_.last_exit(m_positive),
            found.n_exits, found.n_mistakes};
  }

  void sort_active() {
    std::vector<std::uint32_t> by_sum(active_.size());
    std::iota(by_sum.begin(), by_sum.end(), 0u);
    std::sort(by_sum.begin(), by_sum.end(), [&](auto a, auto b) { return active_.sum[a] < active_.sum[b]; });
    Active sorted;
    for (std::uint32_t at : by_sum) {
      sorted.sum.push_back(active_.sum[at]);
      sorted.row.push_back(active_.row[at]);
      sorted.positive.push_back(active_.positive[at]);
    }
    active_ = std::move(sorted);
  }

  // Evaluates the tree, removes the rows beyond the thresholds, and records the thresholds.
  void leave(const Choice& choice) {
    const Thresholds& chosen = choice.thresholds;
    const double* scores = column(choice.tree);
    double above_lower = kInf, below_upper = -kInf;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const double sum = active_.sum[i] + scores[active_.row[i]];
      if (sum > chosen.lower) above_lower = std::min(above_lower, sum);
      if (sum < chosen.upper) below_upper = std::max(below_upper, sum);
      if (sum <= chosen.lower || sum >= chosen.upper) continue;
      active_.sum[kept] = sum;
      active_.row[kept] = active_.row[i];
      active_.positive[kept] = active_.positive[i];
      ++kept;
    }
    active_.sum.resize(kept);
    active_.row.resize(kept);
    active_.positive.resize(kept);
    fit_.n_mistakes += chosen.n_mistakes;
    const auto into_gap = [&](double gap) { return std::min(task_.slack, gap / 4); };
    fit_.lower.push_back(chosen.lower == -kInf ? -kInf : chosen.lower + into_gap(above_lower - chosen.lower));
    fit_.upper.push_back(chosen.upper == kInf ? kInf : chosen.upper - into_gap(chosen.upper - below_upper));
  }

  const MarginTask& task_;
  MarginFit fit_;
  Active active_;
  std::vector<std::size_t> remaining_;
  std::vector<Range> ranges_;
  Side negative_{false}, positive_{true};
};

}  // namespace

MarginFit fit_margins(const MarginTask& task, const std::function<void(std::size_t)>& between_positions) {
  return Search(task).run(between_positions);
}

}  // namespace scurry
