// Sums of residuals per leaf, and the two searches that use them.
#include "calibrate/prefix.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/interrupt.h"

namespace scurry {
namespace {

// A corrective sweep goes over the trees chosen last: each was fitted to what its successors explain too.
constexpr std::size_t kSweepEvery = 5, kSweepLength = 25;
constexpr double kSweepRate = 0.3;
// Gains fall slowly, so that the largest of a few steps ago are a good guess of the largest now.
constexpr std::size_t kAllEvery = 10, kCandidates = 12;
// Rows next to each other often share a leaf, and an addition would wait for the one before.
constexpr std::size_t kLanes = 4;

template <class Leaf>
class LeafSums {
 public:
  explicit LeafSums(const LeafTable<Leaf>& table) : table_(table), weight_(table.offset.back(), table.ridge) {
    std::size_t most = 0;
    for (std::size_t tree = 0; tree < table.n_trees(); ++tree) {
      poll_interrupt();
      most = std::max(most, table.n_leaves(tree));
      double* weight = weight_.data() + table.offset[tree];
      const Leaf* leaf = table.column(tree);
      for (std::size_t row = 0; row < table.n_rows(); ++row) weight[leaf[row]] += table.weight[row];
    }
    for (auto& lane : lanes_) lane.resize(most);
  }

  const double* weight(std::size_t tree) const { return weight_.data() + table_.offset[tree]; }

  // Returns the sums of weight * residual over the leaves of `tree`; valid until the next call.
  const double* sum(std::size_t tree, std::span<const double> residual) {
    const Leaf* leaf = start(tree);
    const std::size_t n = table_.n_rows();
    std::size_t row = 0;
    for (; row + kLanes <= n; row += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, leaf, row + lane, residual);
    }
    for (; row < n; ++row) add(0, leaf, row, residual);
    return finish(tree);
  }

  // The same, after `step` of the leaves of `before` is taken from the residuals.
  const double* sum_after(std::size_t before, const double* step, std::size_t tree, std::span<double> residual) {
    const Leaf* leaf = start(tree);
    const Leaf* left = table_.column(before);
    const std::size_t n = table_.n_rows();
    std::size_t row = 0;
    for (; row + kLanes <= n; row += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        residual[row + lane] -= step[left[row + lane]];
        add(lane, leaf, row + lane, residual);
      }
    }
    for (; row < n; ++row) {
      residual[row] -= step[left[row]];
      add(0, leaf, row, residual);
    }
    return finish(tree);
  }

  void take(std::size_t tree, const double* step, std::span<double> residual) const {
    const Leaf* leaf = table_.column(tree);
    for (std::size_t row = 0; row < table_.n_rows(); ++row) residual[row] -= step[leaf[row]];
  }

 private:
  const Leaf* start(std::size_t tree) {
    for (auto& lane : lanes_) std::fill_n(lane.begin(), table_.n_leaves(tree), 0.0);
    return table_.column(tree);
  }

  void add(std::size_t lane, const Leaf* leaf, std::size_t row, std::span<const double> residual) {
    lanes_[lane][leaf[row]] += table_.weight[row] * residual[row];
  }

  const double* finish(std::size_t tree) {
    for (std::size_t at = 0; at < table_.n_leaves(tree); ++at) {
      lanes_[0][at] = (lanes_[0][at] + lanes_[1][at]) + (lanes_[2][at] + lanes_[3][at]);
    }
    return lanes_[0].data();
  }

  const LeafTable<Leaf>& table_;
  std::vector<double> weight_;
  std::array<std::vector<double>, kLanes> lanes_;
};

template <class Leaf>
class GreedySearch {
 public:
  GreedySearch(const LeafTable<Leaf>& table, const GreedyTask& task, std::span<double> residual)
      : table_(table), task_(task), residual_(residual), sums_(table), gain_(table.n_trees()), left_(table.n_trees()) {
    std::iota(left_.begin(), left_.end(), std::size_t{0});
  }

  GreedyOrder run(const Report& report) {
    GreedyOrder found;
    for (std::size_t step = 0; step < std::min(task_.n_steps, table_.n_trees()); ++step) {
      const std::size_t best = choose(step);
      found.order.push_back(static_cast<std::int64_t>(best));
      found.gains.push_back(gain_[best]);
      std::erase(left_, best);
      correct(best, task_.shrink);
      if (step % kSweepEvery == kSweepEvery - 1) {
        const std::size_t n = found.order.size();
        for (std::size_t at = n - std::min(n, kSweepLength); at < n; ++at) {
          correct(static_cast<std::size_t>(found.order[at]), kSweepRate);
        }
      }
      report(step + 1);
    }
    found.order.insert(found.order.end(), left_.begin(), left_.end());
    return found;
  }

 private:
  // Returns the tree of the largest gain, the lowest index on ties. Between steps that compute all gains, only those
  // that were largest before are computed anew, and one of these is taken.
  std::size_t choose(std::size_t step) {
    std::vector<std::size_t> candidates(left_);
    if (!task_.is_exact && step % kAllEvery != 0 && candidates.size() > kCandidates) {
      std::partial_sort(candidates.begin(), candidates.begin() + kCandidates, candidates.end(),
                        [&](std::size_t a, std::size_t b) { return is_better(a, b); });
      candidates.resize(kCandidates);
    }
    for (std::size_t tree : candidates) update_gain(tree);
    return *std::min_element(candidates.begin(), candidates.end(),
                             [&](std::size_t a, std::size_t b) { return is_better(a, b); });
  }

  bool is_better(std::size_t a, std::size_t b) const { return gain_[a] != gain_[b] ? gain_[a] > gain_[b] : a < b; }

  void update_gain(std::size_t tree) {
    poll_interrupt();
    const double* sum = sums_.sum(tree, residual_);
    const double* weight = sums_.weight(tree);
    double gain = 0.0;
    for (std::size_t at = 0; at < table_.n_leaves(tree); ++at) gain += sum[at] * sum[at] / weight[at];
    gain_[tree] = gain;
  }

  void correct(std::size_t tree, double rate) {
    const double* sum = sums_.sum(tree, residual_);
    const double* weight = sums_.weight(tree);
    step_.resize(table_.n_leaves(tree));
    for (std::size_t at = 0; at < step_.size(); ++at) step_[at] = rate * sum[at] / weight[at];
    sums_.take(tree, step_.data(), residual_);
  }

  const LeafTable<Leaf>& table_;
  const GreedyTask& task_;
  std::span<double> residual_;
  LeafSums<Leaf> sums_;
  std::vector<double> gain_, step_;
  std::vector<std::size_t> left_;
};

}  // namespace

template <class Leaf>
GreedyOrder greedy_order(const LeafTable<Leaf>& table, const GreedyTask& task, std::span<double> residual,
                         const Report& report) {
  return GreedySearch<Leaf>(table, task, residual).run(report);
}

template <class Leaf>
std::vector<double> refit_leaves(const LeafTable<Leaf>& table, std::span<const std::int64_t> trees,
                                 std::size_t n_sweeps, double rate, std::span<double> residual, const Report& report) {
  std::vector<double> corrections(static_cast<std::size_t>(table.offset.back()), 0.0);
  std::vector<double> step, next;
  if (trees.empty()) return corrections;
  LeafSums<Leaf> sums(table);
  std::size_t before = static_cast<std::size_t>(trees.front());
  step.assign(table.n_leaves(before), 0.0);
  for (std::size_t sweep = 0; sweep < n_sweeps; ++sweep) {
    for (const std::int64_t named : trees) {
      poll_interrupt();
      const auto tree = static_cast<std::size_t>(named);
      // Residuals are read once per tree: its sums are taken while the step of the tree before is applied.
      const double* sum = sums.sum_after(before, step.data(), tree, residual);
      const double* weight = sums.weight(tree);
      double* correction = corrections.data() + table.offset[tree];
      next.resize(table.n_leaves(tree));
      for (std::size_t at = 0; at < next.size(); ++at) {
        next[at] = rate * sum[at] / weight[at];
        correction[at] += next[at];
      }
      step.swap(next);
      before = tree;
    }
    report(sweep + 1);
  }
  sums.take(before, step.data(), residual);
  return corrections;
}

template GreedyOrder greedy_order(const LeafTable<std::uint8_t>&, const GreedyTask&, std::span<double>, const Report&);
template GreedyOrder greedy_order(const LeafTable<std::uint16_t>&, const GreedyTask&, std::span<double>, const Report&);
template std::vector<double> refit_leaves(const LeafTable<std::uint8_t>&, std::span<const std::int64_t>, std::size_t,
                                          double, std::span<double>, const Report&);
template std::vector<double> refit_leaves(const LeafTable<std::uint16_t>&, std::span<const std::int64_t>, std::size_t,
                                          double, std::span<double>, const Report&);

}  // namespace scurry
