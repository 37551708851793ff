// The criterion of least squares with prices.
#include "grow/residuals.h"

#include <vector>

namespace scurry {
namespace {

constexpr double kNoGain = 1e-12;  // relative to the sum of squares: rounding alone can give so much

class PricedSquares {
 public:
  PricedSquares(std::span<const double> residuals, std::span<double> prices, std::span<std::int32_t> leaf_of_row)
      : residuals_(residuals), prices_(prices), leaf_of_row_(leaf_of_row) {}

  void describe(const NodeRows& rows, Range node) {
    sum_ = squares_ = 0;
    for (const std::uint32_t row : rows.rows(node)) {
      sum_ += residuals_[row];
      squares_ += residuals_[row] * residuals_[row];
    }
    n_ = static_cast<double>(node.size());
    mean_ = sum_ / n_;
  }

  std::span<const double> value() const { return {&mean_, 1}; }
  double cover() const { return n_; }

  void leaf(const NodeRows& rows, Range node, std::int32_t index) {
    for (const std::uint32_t row : rows.rows(node)) leaf_of_row_[row] = index;
  }

  std::optional<Cut> best_cut(const NodeRows& rows, Range node) {
    std::optional<Cut> best;
    double most = kNoGain * squares_;
    for (std::size_t feature = 0; feature < prices_.size(); ++feature) {
      if (rows.is_constant(feature, node)) continue;
      const auto [gain, threshold] = best_halves(rows, node, feature);
      if (gain - prices_[feature] <= most) continue;
      most = gain - prices_[feature];
      best = {feature, threshold};
    }
    if (best) prices_[best->feature] = 0;
    return best;
  }

 private:
  struct Halving {
    double gain, threshold;
  };

  // Half the squared error that the best threshold removes.
  Halving best_halves(const NodeRows& rows, Range node, std::size_t feature) const {
    const auto order = rows.rows(feature, node);
    const float* values = rows.columns().values(feature);
    Halving best{0, 0};
    double left = 0, n_left = 0;
    for (std::size_t at = 0; at + 1 < order.size(); ++at) {
      left += residuals_[order[at]];
      ++n_left;
      const float here = values[order[at]], next = values[order[at + 1]];
      if (here == next) continue;
      const double right = sum_ - left;
      const double gain = (left * left / n_left + right * right / (n_ - n_left) - sum_ * mean_) / 2;
      if (gain > best.gain) best = {gain, between(here, next)};
    }
    return best;
  }

  std::span<const double> residuals_;
  std::span<double> prices_;
  std::span<std::int32_t> leaf_of_row_;
  double sum_ = 0, squares_ = 0, n_ = 0, mean_ = 0;
};

}  // namespace

GrownTree grow_residuals(const ColumnOrders& columns, std::span<const double> residuals, std::span<double> prices,
                         std::size_t max_depth, std::span<std::int32_t> leaf_of_row) {
  const std::vector<std::int32_t> once(columns.n_rows(), 1);
  NodeRows rows(columns, once);
  PricedSquares criterion(residuals, prices, leaf_of_row);
  return grow(rows, criterion, max_depth);
}

}  // namespace scurry
