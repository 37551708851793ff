// The criterion of least cost per impurity removed.
#include "grow/classes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace scurry {
namespace {

constexpr double kNoGain = 1e-7;  // less may be rounding alone

// The impurity of a set of rows, given the number of rows of each class.
class ImpurityMeasure {
 public:
  ImpurityMeasure(const ClassTask& task, std::int64_t n_rows) : kind_(task.impurity), alpha_(task.alpha) {
    if (kind_ == Impurity::kPairs) return;
    x_log_x_.resize(static_cast<std::size_t>(n_rows) + 1);
    for (std::size_t x = 2; x < x_log_x_.size(); ++x) {
      x_log_x_[x] = static_cast<double>(x) * std::log(static_cast<double>(x));
    }
  }

  double operator()(const std::vector<std::int64_t>& counts, std::int64_t n) const {
    return kind_ == Impurity::kEntropy ? entropy(counts, n) : alpha_ == 0 ? pairs(counts, n) : threshold_pairs(counts);
  }

 private:
  static double pairs(const std::vector<std::int64_t>& counts, std::int64_t n) {
    double alike = 0;
    for (const std::int64_t count : counts) alike += static_cast<double>(count) * static_cast<double>(count);
    return (static_cast<double>(n) * static_cast<double>(n) - alike) / 2;
  }

  double threshold_pairs(const std::vector<std::int64_t>& counts) const {
    double sum = 0;
    for (std::size_t c = 1; c < counts.size(); ++c) {
      const double above = static_cast<double>(counts[c]) - alpha_;
      if (above <= 0) continue;
      for (std::size_t d = 0; d < c; ++d) {
        sum += std::max(0.0, above * std::max(0.0, static_cast<double>(counts[d]) - alpha_) - alpha_ * alpha_);
      }
    }
    return sum;
  }

  double entropy(const std::vector<std::int64_t>& counts, std::int64_t n) const {
    double sum = x_log_x_[static_cast<std::size_t>(n)];
    for (const std::int64_t count : counts) sum -= x_log_x_[static_cast<std::size_t>(count)];
    const double nats = sum / static_cast<double>(n);
    return nats < alpha_ ? 0 : nats;
  }

  Impurity kind_;
  double alpha_;
  std::vector<double> x_log_x_;
};

class CheapestSplit {
 public:
  explicit CheapestSplit(const ClassTask& task)
      : task_(task),
        measure_(task, std::accumulate(task.weights.begin(), task.weights.end(), std::int64_t{0})),
        random_(task.seed),
        features_(task.costs.size()),
        total_(task.n_classes),
        shares_(task.n_classes) {
    std::iota(features_.begin(), features_.end(), std::size_t{0});
  }

  void describe(const NodeRows& rows, Range node) {
    std::ranges::fill(total_, 0);
    for (const std::uint32_t row : rows.rows(node)) total_[task_.classes[row]] += task_.weights[row];
    n_ = std::accumulate(total_.begin(), total_.end(), std::int64_t{0});
    for (std::size_t c = 0; c < total_.size(); ++c) {
      shares_[c] = static_cast<double>(total_[c]) / static_cast<double>(n_);
    }
  }

  std::span<const double> value() const { return shares_; }
  double cover() const { return static_cast<double>(n_); }
  void leaf(const NodeRows&, Range, std::int32_t) {}

  std::optional<Cut> best_cut(const NodeRows& rows, Range node) {
    const double impurity = measure_(total_, n_);
    if (impurity <= 0) return std::nullopt;
    std::optional<Cut> best;
    double best_price = std::numeric_limits<double>::infinity(), best_gain = 0;
    const bool draw = task_.max_features < features_.size();
    for (std::size_t seen = 0; seen < features_.size() && (seen < task_.max_features || !best); ++seen) {
      if (draw) std::swap(features_[seen], features_[seen + below(features_.size() - seen)]);
      const std::size_t feature = features_[seen];
      if (rows.is_constant(feature, node)) continue;
      const auto [left_over, threshold] = purest_halves(rows, node, feature);
      const double gain = impurity - left_over;
      if (gain <= kNoGain) continue;
      const double price = task_.costs[feature] / gain;
      if (price < best_price || (price == best_price && gain > best_gain)) {
        best = {feature, threshold};
        best_price = price;
        best_gain = gain;
      }
    }
    return best;
  }

 private:
  struct Halving {
    double left_over, threshold;
  };

  // The threshold that leaves the least impurity, the lowest one of equals.
  Halving purest_halves(const NodeRows& rows, Range node, std::size_t feature) {
    const auto order = rows.rows(feature, node);
    const float* values = rows.columns().values(feature);
    left_.assign(task_.n_classes, 0);
    right_ = total_;
    std::int64_t n_left = 0;
    Halving best{std::numeric_limits<double>::infinity(), 0};
    for (std::size_t at = 0; at + 1 < order.size(); ++at) {
      const std::uint32_t row = order[at];
      const std::int32_t weight = task_.weights[row];
      left_[task_.classes[row]] += weight;
      right_[task_.classes[row]] -= weight;
      n_left += weight;
      const float here = values[row], next = values[order[at + 1]];
      if (here == next) continue;
      const double left_over = joined(n_left);
      if (left_over < best.left_over) best = {left_over, between(here, next)};
    }
    return best;
  }

  double joined(std::int64_t n_left) const {
    const std::int64_t n_right = n_ - n_left;
    const double left = measure_(left_, n_left), right = measure_(right_, n_right);
    if (task_.halves == Halves::kWorst) return std::max(left, right);
    return (static_cast<double>(n_left) * left + static_cast<double>(n_right) * right) / static_cast<double>(n_);
  }

  // Uniform on [0, n) and the same on every platform, up to a bias of 2^-32 that cannot be noticed.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(((random_() >> 32) * n) >> 32); }

  const ClassTask& task_;
  ImpurityMeasure measure_;
  std::mt19937_64 random_;
  std::vector<std::size_t> features_;
  std::vector<std::int64_t> total_, left_, right_;
  std::vector<double> shares_;
  std::int64_t n_ = 0;
};

}  // namespace

GrownTree grow_classes(const ColumnOrders& columns, const ClassTask& task) {
  NodeRows rows(columns, task.weights);
  CheapestSplit criterion(task);
  return grow(rows, criterion, task.max_depth);
}

}  // namespace scurry
