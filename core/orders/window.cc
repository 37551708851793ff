// Refines a step order by exact search in overlapping windows (orders/beam.h).
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "orders/beam.h"
#include "runtime/interrupt.h"

namespace scurry {

namespace {

// All states between two states of an order, and the cheapest path from one to the other.
class Window {
 public:
  // `steps` are the steps to replace, `before` and `after` the trees of the steps around them, -1 if there is none.
  Window(const StepCosts& costs, std::span<const std::int32_t> steps, std::int32_t before, std::int32_t after)
      : costs_(costs), steps_(steps), before_(before), after_(after) {
    std::map<std::int32_t, std::size_t> n_steps;
    for (const std::int32_t tree : steps) ++n_steps[tree];
    for (const auto& [tree, n] : n_steps) {
      tree_.push_back(tree);
      n_levels_.push_back(n + 1);
    }
    stride_.assign(n_trees(), 1);
    for (std::size_t k = n_trees(); k-- > 1;) stride_[k - 1] = stride_[k] * n_levels_[k];
    excess_.resize(stride_[0] * n_levels_[0]);
  }

  // Scores all states, given the margins and levels of the first.
  void score(Scorer& scorer, double last_score, const Tiles& margins, const std::vector<std::size_t>& level) {
    for (std::size_t k = 0; k < n_trees(); ++k) {
      std::vector<Tiles>& moves = moves_.emplace_back();
      for (std::size_t i = 1; i < n_levels_[k]; ++i) {
        moves.push_back(scorer.changes(static_cast<std::size_t>(tree_[k]), level[tree_[k]] + i));
        if (i > 1) add(moves[i - 2], moves[i - 1]);
      }
    }
    // Tile by tile, so that each stays in cache while all states are visited.
    Tiles moved(n_trees() * scorer.tile_size());
    std::fill(excess_.begin(), excess_.end(), 0.0);
    for (std::size_t tile = 0; tile < scorer.n_tiles(); ++tile) {
      poll_interrupt();
      sum_from(0, 0, scorer, tile, &margins[tile * scorer.tile_size()], moved.data());
    }
    for (double& excess : excess_) excess = last_score - scorer.score_of(excess);
  }

  // The cheapest steps, empty if the given ones are as good.
  std::vector<std::int32_t> best() const {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    // total[state][k] is the cost of the cheapest path to a state that ends with a step of tree k; previous[state][k]
    // is the tree of the step before that one.
    std::vector<double> total(excess_.size() * n_trees(), kNone);
    std::vector<std::size_t> previous(total.size(), 0);
    for (std::size_t state = 1; state < excess_.size(); ++state) {
      for (std::size_t k = 0; k < n_trees(); ++k) {
        if (state / stride_[k] % n_levels_[k] == 0) continue;
        const std::size_t from = state - stride_[k], to = state * n_trees() + k;
        if (from == 0) total[to] = excess_[0] * costs_.of(before_, tree_[k]);
        for (std::size_t j = 0; from > 0 && j < n_trees(); ++j) {
          const double by_way_of_j = total[from * n_trees() + j] + excess_[from] * costs_.of(tree_[j], tree_[k]);
          if (by_way_of_j < total[to]) {
            total[to] = by_way_of_j;
            previous[to] = j;
          }
        }
      }
    }
    std::size_t state = excess_.size() - 1, last = 0;
    const auto total_by = [&](std::size_t k) {
      return total[state * n_trees() + k] + excess_[state] * costs_.of(tree_[k], after_);
    };
    for (std::size_t k = 1; k < n_trees(); ++k) {
      if (total_by(k) < total_by(last)) last = k;
    }
    // Because of rounding, two equal paths could replace each other forever.
    if (total_by(last) >= given_total() - 1e-9 * std::abs(given_total())) return {};
    std::vector<std::int32_t> steps;
    while (state > 0) {
      steps.push_back(tree_[last]);
      const std::size_t before = previous[state * n_trees() + last];
      state -= stride_[last];
      last = before;
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
  }

 private:
  std::size_t n_trees() const { return tree_.size(); }

  // Adds what one tile contributes to the sums of all states in which trees from the k-th on differ.
  void sum_from(std::size_t k, std::size_t state, const Scorer& scorer, std::size_t tile, const std::int32_t* margins,
                std::int32_t* scratch) {
    const std::size_t size = scorer.tile_size();
    for (std::size_t level = 0; level < n_levels_[k]; ++level, state += stride_[k]) {
      const std::int32_t* moves = level == 0 ? nullptr : &moves_[k][level - 1][tile * size];
      if (k + 1 == n_trees()) {
        excess_[state] += scorer.sum_of_tile(tile, margins, moves);
      } else if (level == 0) {
        sum_from(k + 1, state, scorer, tile, margins, scratch + size);
      } else {
        add(margins, moves, size, scratch);
        sum_from(k + 1, state, scorer, tile, scratch, scratch + size);
      }
    }
  }

  double given_total() const {
    double total = 0;
    std::size_t state = 0;
    std::int32_t last = before_;
    for (const std::int32_t tree : steps_) {
      total += excess_[state] * costs_.of(last, tree);
      state += stride_[static_cast<std::size_t>(std::find(tree_.begin(), tree_.end(), tree) - tree_.begin())];
      last = tree;
    }
    return total + excess_[state] * costs_.of(last, after_);
  }

  const StepCosts& costs_;
  std::span<const std::int32_t> steps_;
  std::int32_t before_, after_;
  std::vector<std::int32_t> tree_;
  std::vector<std::size_t> n_levels_, stride_;
  std::vector<std::vector<Tiles>> moves_;  // [k][level - 1] since the window's first state
  std::vector<double> excess_;             // [state] score at the end of the order, less the state's
};

// The end of the longest window from `first` on that has at most max_states states, and at least two steps.
std::size_t window_end(std::span<const std::int32_t> order, std::size_t first, std::size_t max_states) {
  std::map<std::int32_t, std::size_t> n_levels;
  std::size_t n_states = 1, end = first;
  for (; end < order.size(); ++end) {
    std::size_t& levels = n_levels.try_emplace(order[end], 1).first->second;
    n_states = n_states / levels * (levels + 1);
    if (n_states > max_states && end >= first + 2) break;
    ++levels;
  }
  return end;
}

}  // namespace

std::vector<std::int32_t> refined_order(Scorer& scorer, const StepCosts& costs, std::vector<std::int32_t> order,
                                        std::size_t max_states, std::size_t max_sweeps) {
  const Tiles roots = scorer.start();
  Tiles margins = roots;
  std::vector<std::size_t> level(scorer.descent().n_trees(), 0);
  const auto step = [&](std::int32_t tree) {
    add(scorer.changes(static_cast<std::size_t>(tree), ++level[tree]), margins);
  };
  for (const std::int32_t tree : order) step(tree);
  const double last_score = scorer.score(margins);

  bool improved = true;
  for (std::size_t sweep = 0; improved && sweep < max_sweeps; ++sweep) {
    improved = false;
    margins = roots;
    std::fill(level.begin(), level.end(), 0);
    for (std::size_t first = 0, end = 0; end < order.size();) {
      end = window_end(order, first, max_states);
      const std::int32_t before = first == 0 ? -1 : order[first - 1], after = end == order.size() ? -1 : order[end];
      Window window(costs, std::span(order).subspan(first, end - first), before, after);
      window.score(scorer, last_score, margins, level);
      const std::vector<std::int32_t> best = window.best();
      improved |= !best.empty();
      std::copy(best.begin(), best.end(), order.begin() + static_cast<std::ptrdiff_t>(first));
      // Windows overlap by half, so that every step is also tried far from the ends of a window.
      for (const std::size_t next = first + std::max<std::size_t>(1, (end - first) / 2); first < next; ++first) {
        step(order[first]);
      }
    }
  }
  return order;
}

}  // namespace scurry
