// Checks the weights of a closure and solves it from the tops of the trees down.
#include "closure/closure.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "closure/cut.h"
#include "closure/part.h"

namespace scurry {

namespace {

constexpr std::int64_t kMaxWeight = std::int64_t{1} << 62;

[[noreturn]] void overflow() { throw std::overflow_error("the weights of a closure need more than 62 bits"); }

// The arithmetic of weights, which throws instead of wrapping round.
std::int64_t multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_mul_overflow(a, b, &result) || result > kMaxWeight || result < -kMaxWeight) overflow();
  return result;
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  std::int64_t result;
  if (__builtin_add_overflow(a, b, &result) || result > kMaxWeight || result < -kMaxWeight) overflow();
  return result;
}

std::int64_t total(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0}, add);
}

void check_weights(const ClosureProblem& problem, Price price) {
  if (problem.n_nodes() + problem.item_node.size() > std::numeric_limits<std::int32_t>::max() / 2) {
    throw std::length_error("a closure can have at most 2^30 nodes and purchases");
  }
  std::int64_t gains = 0, losses = 0;
  for (const std::int64_t gain : problem.gain) {
    (gain > 0 ? gains : losses) = add(gain > 0 ? gains : losses, std::abs(gain));
  }
  multiply(price.gain, gains);
  add(multiply(price.gain, losses), multiply(price.cost, problem.total_cost()));
}

std::vector<std::int32_t> depths(const ClosureProblem& problem) {
  std::vector<std::int32_t> depth(problem.n_nodes());
  for (std::size_t v = 0; v < depth.size(); ++v) {
    if (problem.parent[v] >= 0) depth[v] = depth[problem.parent[v]] + 1;
  }
  return depth;
}

}  // namespace

std::int64_t ClosureProblem::total_gain() const { return total(gain); }
std::int64_t ClosureProblem::total_cost() const { return add(total(cost), total(item_cost)); }

std::vector<std::uint8_t> largest_closure(const ClosureProblem& problem, Price price, std::size_t one_cut_below) {
  check_weights(problem, price);
  if (problem.item_node.size() < one_cut_below) return cut_closure(problem, price);
  // What is worth keeping without the nodes below it is worth keeping with them, and what it buys is then paid for. So
  // the tops of the trees are solved first, which leaves a small problem. If the tops alone are worth nothing, the
  // whole problem is solved.
  const std::vector<std::int32_t> depth = depths(problem);
  const std::int32_t deepest = depth.empty() ? 0 : *std::max_element(depth.begin(), depth.end());
  std::vector<Fate> fate(problem.n_nodes(), Fate::kDropped);
  bool is_whole = false;
  for (std::int32_t limit = 1, n_kept = 1; !is_whole; limit *= 2) {
    is_whole = n_kept == 0 || limit >= deepest;
    for (std::size_t v = 0; v < fate.size(); ++v) {
      if (fate[v] == Fate::kDropped && (is_whole || depth[v] <= limit)) fate[v] = Fate::kOpen;
    }
    const ClosurePart top = open_part(problem, fate);
    const std::vector<std::uint8_t> kept = cut_closure(top.problem, price);
    n_kept = 0;
    for (std::size_t v = 0; v < kept.size(); ++v) {
      if (!kept[v]) continue;
      fate[top.nodes[v]] = Fate::kKept;
      ++n_kept;
    }
  }
  std::vector<std::uint8_t> kept(fate.size());
  std::transform(fate.begin(), fate.end(), kept.begin(), [](Fate f) { return f == Fate::kKept; });
  return kept;
}

std::vector<std::uint8_t> largest_free_closure(const ClosureProblem& problem,
                                               const std::vector<std::uint8_t>& eligible) {
  std::vector<std::int64_t> best =
      problem.gain;  // the gain of a node with the part of its subtree that is worth keeping
  for (std::size_t v = problem.n_nodes(); v-- > 0;) {
    const std::int32_t parent = problem.parent[v];
    if (eligible[v] && parent >= 0 && best[v] > 0) best[parent] += best[v];
  }
  std::vector<std::uint8_t> kept(problem.n_nodes());
  for (std::size_t v = 0; v < problem.n_nodes(); ++v) {
    const std::int32_t parent = problem.parent[v];
    kept[v] = eligible[v] && best[v] >= 0 && (parent < 0 || kept[parent]);
  }
  return kept;
}

}  // namespace scurry
