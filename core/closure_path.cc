#include "closure_path.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace scurry {

namespace {

// The nodes between two optimal sets; the smaller set is taken for granted.
struct Stretch {
  ClosureProblem problem;
  std::vector<std::int32_t> nodes;  // their indices in the whole problem
};

Stretch part_of(const Stretch& whole, const std::vector<std::uint8_t>& kept, bool side) {
  Stretch result{part(whole.problem, kept, side), {}};
  result.nodes.reserve(result.problem.n_nodes());
  for (std::size_t v = 0; v < kept.size(); ++v) {
    if (static_cast<bool>(kept[v]) == side) result.nodes.push_back(whole.nodes[v]);
  }
  return result;
}

// Nodes that can be kept, with those above them, at no cost.
std::vector<std::uint8_t> free_nodes(const ClosureProblem& problem) {
  std::vector<std::uint8_t> free(problem.n_nodes(), 1);
  for (const std::int32_t buyer : problem.item_node) free[buyer] = 0;
  for (std::size_t v = 0; v < free.size(); ++v) {
    const std::int32_t parent = problem.parent[v];
    free[v] = free[v] && problem.cost[v] == 0 && (parent < 0 || free[parent]);
  }
  return free;
}

}  // namespace

ClosureProblem part(const ClosureProblem& whole, const std::vector<std::uint8_t>& kept, bool side) {
  ClosureProblem result;
  std::vector<std::int32_t> index(whole.n_nodes(), -1);
  for (std::size_t v = 0; v < whole.n_nodes(); ++v) {
    if (static_cast<bool>(kept[v]) != side) continue;
    index[v] = static_cast<std::int32_t>(result.n_nodes());
    result.parent.push_back(whole.parent[v] < 0 ? -1 : index[whole.parent[v]]);
    result.gain.push_back(whole.gain[v]);
    result.cost.push_back(whole.cost[v]);
  }
  for (std::size_t item = 0; item < whole.n_items(); ++item) {
    const std::size_t first = result.item_node.size();
    bool paid = false;
    for (std::int64_t a = whole.item_offset[item]; a < whole.item_offset[item + 1]; ++a) {
      const std::int32_t buyer = whole.item_node[a];
      if (index[buyer] >= 0) {
        result.item_node.push_back(index[buyer]);
      } else {
        paid |= kept[buyer] != 0;
      }
    }
    const std::size_t n_buyers = result.item_node.size() - first;
    if (!paid && n_buyers > 1) {
      result.item_offset.push_back(static_cast<std::int64_t>(result.item_node.size()));
      result.item_cost.push_back(whole.item_cost[item]);
      continue;
    }
    if (!paid && n_buyers == 1) result.cost[result.item_node[first]] += whole.item_cost[item];
    result.item_node.resize(first);
  }
  return result;
}

ClosurePath closure_path(const ClosureProblem& problem, const Progress& progress) {
  ClosurePath path;
  path.kept_until.resize(problem.n_nodes());
  // At theta = 0 costs do not count; at infinity only what is free is kept, and it buys nothing.
  const std::vector<std::uint8_t> largest = largest_free_closure(problem, std::vector<std::uint8_t>(problem.n_nodes(), 1));
  const std::vector<std::uint8_t> smallest = largest_free_closure(problem, free_nodes(problem));
  Stretch between;
  std::vector<std::uint8_t> is_between(problem.n_nodes());
  for (std::size_t v = 0; v < problem.n_nodes(); ++v) {
    is_between[v] = largest[v] && !smallest[v];
    if (is_between[v]) between.nodes.push_back(static_cast<std::int32_t>(v));
  }
  between.problem = part(problem, is_between, true);
  std::size_t n_settled = problem.n_nodes() - between.nodes.size();
  std::vector<Stretch> stretches;
  if (!between.nodes.empty()) stretches.push_back(std::move(between));
  while (!stretches.empty()) {
    const Stretch stretch = std::move(stretches.back());
    stretches.pop_back();
    const PathStep step{stretch.problem.total_gain(), stretch.problem.total_cost()};
    // Without a gain it goes as soon as costs count at all: it is in no optimal set of a positive theta.
    if (step.gain > 0) {
      const std::int64_t common = std::gcd(step.gain, step.cost);
      const std::vector<std::uint8_t> kept =
          largest_closure(stretch.problem, {step.cost / common, step.gain / common});
      if (std::find(kept.begin(), kept.end(), 0) != kept.end()) {
        // Some of it is worth more than this theta, and the rest less.
        stretches.push_back(part_of(stretch, kept, true));
        stretches.push_back(part_of(stretch, kept, false));
        progress(n_settled);
        continue;
      }
      path.steps.push_back(step);
      for (const std::int32_t v : stretch.nodes) path.kept_until[v] = static_cast<std::int32_t>(path.steps.size());
    }
    n_settled += stretch.nodes.size();
    progress(n_settled);
  }
  for (std::size_t v = 0; v < smallest.size(); ++v) {
    if (smallest[v]) path.kept_until[v] = static_cast<std::int32_t>(path.steps.size()) + 1;
  }
  return path;
}

}  // namespace scurry
