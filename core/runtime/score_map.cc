// Applies score maps to the outcomes of a batch.
#include "runtime/score_map.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace scurry {

ScoreMap::ScoreMap(std::vector<double> slope, std::vector<double> intercept, ScoreBounds bounds)
    : slope_(std::move(slope)), intercept_(std::move(intercept)), bounds_(bounds) {
  if (slope_.empty() || slope_.size() % 2 != 0 || slope_.size() != intercept_.size()) {
    throw std::invalid_argument("a score map needs a slope and an intercept for each group and position");
  }
  if (!(bounds_.lowest[0] <= bounds_.highest[0] && bounds_.lowest[1] <= bounds_.highest[1])) {
    throw std::invalid_argument("a score map needs bounds in order");
  }
}

double ScoreMap::at(std::size_t group, std::size_t position, std::int32_t sum) const {
  const std::size_t entry = group * n_positions() + position;
  const double score = slope_[entry] * static_cast<double>(sum) + intercept_[entry];
  return std::clamp(score, bounds_.lowest[group], bounds_.highest[group]);
}

void ScoreMap::two_classes(std::span<const std::int32_t> sums, const std::int32_t* positions,
                           const std::uint8_t* is_positive, double* out) const {
  for (std::size_t row = 0; row < sums.size(); ++row) {
    out[row] = at(is_positive[row] != 0, static_cast<std::size_t>(positions[row]), sums[row]);
  }
}

void ScoreMap::classes(std::span<const std::int32_t> sums, const std::int32_t* positions, const std::int32_t* leaders,
                       std::size_t n_classes, double* out) const {
  for (std::size_t row = 0; row * n_classes < sums.size(); ++row) {
    const std::int32_t* of_row = sums.data() + row * n_classes;
    double* scores = out + row * n_classes;
    const auto position = static_cast<std::size_t>(positions[row]), leader = static_cast<std::size_t>(leaders[row]);
    const double leading = at(1, position, of_row[leader]);
    double total = 0;
    for (std::size_t k = 0; k < n_classes; ++k) {
      scores[k] = k == leader ? leading : std::min(at(0, position, of_row[k]), leading - bounds_.margin);
      total += scores[k];
    }
    if (!bounds_.sums_to_one) continue;
    for (std::size_t k = 0; k < n_classes; ++k) scores[k] /= total;
  }
}

}  // namespace scurry
