// Moves all rows by one tree step and counts how many are wrong.
#include "orders/position.h"

#include <algorithm>

#include "runtime/interrupt.h"

namespace scurry {

namespace {

constexpr std::size_t kBlock = 1024;  // rows handled together, so that their changes stay in cache

}  // namespace

Position::Position(const Descent& descent)
    : descent_(descent),
      level_(descent.n_trees(), 0),
      margins_(descent.start()),
      change_of_leaf_(descent.n_leaves()),
      changes_(descent.n_margins() * kBlock) {}

void Position::add_step(std::size_t tree, std::size_t level, std::int32_t sign) {
  descent_.read_step(tree, level, change_of_leaf_.data());
  for (std::size_t first = 0; first < descent_.n_rows(); first += kBlock) {
    const std::size_t n = std::min(kBlock, descent_.n_rows() - first);
    descent_.changes(tree, change_of_leaf_.data(), first, n, changes_.data());
    std::int32_t* margin = &margins_[first * descent_.n_margins()];
    for (std::size_t i = 0; i < n * descent_.n_margins(); ++i) margin[i] += sign * changes_[i];
  }
}

double Position::loss() const {
  const std::size_t n_margins = descent_.n_margins();
  double squares = 0;
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < descent_.n_rows(); ++row) {
    const std::int32_t* margin = &margins_[row * n_margins];
    if (descent_.regression()) {
      squares += static_cast<double>(*margin) * *margin;
    } else {
      wrong += *std::min_element(margin, margin + n_margins) <= 0;
    }
  }
  return descent_.regression() ? squares : static_cast<double>(wrong);
}

std::vector<double> losses_along(const Descent& descent, std::span<const std::int32_t> steps) {
  Position position(descent);
  std::vector<double> losses{position.loss()};
  for (const std::int32_t tree : steps) {
    poll_interrupt();
    position.step_down(static_cast<std::size_t>(tree));
    losses.push_back(position.loss());
  }
  return losses;
}

}  // namespace scurry
