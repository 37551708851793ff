// Finds all breakpoints: divides a part at the price at which keeping all of it is worth as much as keeping none.
#include "closure/path.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "closure/part.h"

namespace scurry {

namespace {

// The nodes that can be kept, with those above them, at no cost.
std::vector<std::uint8_t> free_nodes(const ClosureProblem& problem) {
  std::vector<std::uint8_t> free(problem.n_nodes(), 1);
  for (const std::int32_t buyer : problem.item_node) free[buyer] = 0;
  for (std::size_t v = 0; v < free.size(); ++v) {
    const std::int32_t parent = problem.parent[v];
    free[v] = free[v] && problem.cost[v] == 0 && (parent < 0 || free[parent]);
  }
  return free;
}

// The open nodes of `whole`, given the fate of the nodes that a cut keeps and of the others.
ClosurePart take_part(const ClosurePart& whole, const std::vector<std::uint8_t>& kept, Fate of_kept, Fate of_others) {
  std::vector<Fate> fate(kept.size());
  std::transform(kept.begin(), kept.end(), fate.begin(), [=](std::uint8_t k) { return k ? of_kept : of_others; });
  ClosurePart part = open_part(whole.problem, fate);
  for (std::int32_t& node : part.nodes) node = whole.nodes[node];
  return part;
}

}  // namespace

ClosurePath closure_path(const ClosureProblem& problem, const Progress& progress) {
  ClosurePath path;
  path.kept_until.resize(problem.n_nodes());
  // At theta = 0 costs do not count; at infinity only what is free is kept, and it buys nothing.
  const std::vector<std::uint8_t> largest =
      largest_free_closure(problem, std::vector<std::uint8_t>(problem.n_nodes(), 1));
  const std::vector<std::uint8_t> smallest = largest_free_closure(problem, free_nodes(problem));
  std::vector<Fate> fate(problem.n_nodes());
  for (std::size_t v = 0; v < fate.size(); ++v) {
    fate[v] = smallest[v] ? Fate::kKept : largest[v] ? Fate::kOpen : Fate::kDropped;
  }
  // Each part is the nodes between two optimal sets; the smaller of the two sets is already kept.
  std::vector<ClosurePart> open_parts{open_part(problem, fate)};
  std::size_t n_settled = problem.n_nodes() - open_parts[0].nodes.size();
  if (open_parts[0].nodes.empty()) open_parts.clear();
  while (!open_parts.empty()) {
    const ClosurePart part = std::move(open_parts.back());
    open_parts.pop_back();
    const Breakpoint breakpoint{part.problem.total_gain(), part.problem.total_cost()};
    // A part without a gain goes as soon as costs count at all: it is in no optimal set of a positive theta.
    if (breakpoint.gain > 0) {
      const std::int64_t common = std::gcd(breakpoint.gain, breakpoint.cost);
      const std::vector<std::uint8_t> kept =
          largest_closure(part.problem, {breakpoint.cost / common, breakpoint.gain / common});
      if (std::find(kept.begin(), kept.end(), 0) != kept.end()) {
        // Some of the part is worth more than this theta, and the rest less.
        open_parts.push_back(take_part(part, kept, Fate::kOpen, Fate::kDropped));
        open_parts.push_back(take_part(part, kept, Fate::kKept, Fate::kOpen));
        progress(n_settled);
        continue;
      }
      path.breakpoints.push_back(breakpoint);
      for (const std::int32_t v : part.nodes) path.kept_until[v] = static_cast<std::int32_t>(path.breakpoints.size());
    }
    n_settled += part.nodes.size();
    progress(n_settled);
  }
  for (std::size_t v = 0; v < smallest.size(); ++v) {
    if (smallest[v]) path.kept_until[v] = static_cast<std::int32_t>(path.breakpoints.size()) + 1;
  }
  return path;
}

}  // namespace scurry
