// Beam search for step orders.
#include "orders/beam.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "runtime/interrupt.h"

namespace scurry {

namespace {

// Mixes the bits of x (the finaliser of SplitMix64).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

class Beam {
 public:
  Beam(Scorer& scorer, const StepCosts& costs, std::size_t width, bool down)
      : scorer_(scorer), descent_(scorer.descent()), costs_(costs), width_(width), down_(down) {
    State roots{std::vector<std::size_t>(descent_.n_trees(), 0), 0, scorer.start(), -1, 0, 0}, leaves = roots;
    for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
      std::size_t& level = leaves.level[tree];
      while (level < descent_.depth(tree)) add(scorer.changes(tree, ++level), leaves.margins);
    }
    last_score_ = scorer.score(leaves.margins);
    beam_.push_back(down ? std::move(roots) : std::move(leaves));
    beam_[0].score = scorer.score(beam_[0].margins);
  }

  std::vector<std::int32_t> run() {
    while (history_.size() < descent_.n_steps()) advance();
    std::size_t at = 0;
    for (std::size_t i = 1; i < beam_.size(); ++i) {
      if (beam_[i].total < beam_[at].total) at = i;
    }
    std::vector<std::int32_t> order;
    for (std::size_t step = history_.size(); step-- > 0; at = history_[step][at].parent) {
      order.push_back(history_[step][at].tree);
    }
    if (down_) std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  struct State {
    std::vector<std::size_t> level;  // of each tree
    std::uint64_t hash;              // of the levels
    Tiles margins;
    std::int32_t moved;  // the tree of the step that led here
    double total;        // what the steps so far cost
    double score;
  };
  struct Move {
    std::size_t parent;  // in the beam before
    std::int32_t tree;
  };
  struct Candidate : Move {
    std::uint64_t hash;
    double total, score;
  };

  using Step = std::pair<std::int32_t, std::size_t>;  // tree and level

  std::size_t step_level(const State& state, std::size_t tree) const { return state.level[tree] + (down_ ? 1 : 0); }

  // Several parents may lead to one state: the cheapest path is kept. Two states count as one if the hashes of their
  // levels are equal and, if costs depend on it, the last tree is the same.
  std::vector<Candidate> candidates() const {
    std::vector<Candidate> found;
    std::unordered_map<std::uint64_t, std::size_t> place;
    for (std::size_t parent = 0; parent < beam_.size(); ++parent) {
      const State& state = beam_[parent];
      for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
        if (state.level[tree] == (down_ ? descent_.depth(tree) : 0)) continue;
        const auto moved = static_cast<std::int32_t>(tree);
        const std::uint64_t step = mix(static_cast<std::uint64_t>(tree) << 32 | step_level(state, tree));
        const std::uint64_t hash = down_ ? state.hash + step : state.hash - step;
        const double total = state.total + (last_score_ - state.score) * costs_.of(state.moved, moved);
        const std::uint64_t key = costs_.same_tree == costs_.other_tree ? hash : mix(hash ^ tree);
        const auto [entry, is_new] = place.try_emplace(key, found.size());
        const Candidate candidate{{parent, moved}, hash, total, 0};
        if (is_new) {
          found.push_back(candidate);
        } else if (total < found[entry->second].total) {
          found[entry->second] = candidate;
        }
      }
    }
    return found;
  }

  const Tiles& changes_of(const Step& step) {
    const auto [entry, is_new] = changes_.try_emplace(step);
    if (is_new) entry->second = scorer_.changes(static_cast<std::size_t>(step.first), step.second, down_);
    return entry->second;
  }

  // Scores each state once, and reads each step once for all states that may take it.
  void score(std::vector<Candidate>& found) {
    std::map<Step, std::vector<Candidate*>> by_step;
    std::unordered_map<std::uint64_t, double> score_of;
    for (Candidate& candidate : found) {
      if (!score_of.try_emplace(candidate.hash, 0).second) continue;
      const State& parent = beam_[candidate.parent];
      by_step[{candidate.tree, step_level(parent, static_cast<std::size_t>(candidate.tree))}].push_back(&candidate);
    }
    std::erase_if(changes_, [&](const auto& entry) { return !by_step.contains(entry.first); });
    for (const auto& [step, takers] : by_step) {
      const Tiles& changes = changes_of(step);
      for (const Candidate* taker : takers) {
        poll_interrupt();
        score_of[taker->hash] = scorer_.score(beam_[taker->parent].margins, &changes);
      }
    }
    for (Candidate& candidate : found) candidate.score = score_of[candidate.hash];
  }

  void advance() {
    std::vector<Candidate> found = candidates();
    score(found);
    const auto value = [&](const Candidate& c) { return c.total + (last_score_ - c.score) * costs_.other_tree; };
    std::stable_sort(found.begin(), found.end(),
                     [&](const Candidate& a, const Candidate& b) { return value(a) < value(b); });
    found.resize(std::min(found.size(), width_));
    std::vector<State> next;
    for (const Candidate& best : found) {
      const State& parent = beam_[best.parent];
      const auto tree = static_cast<std::size_t>(best.tree);
      State state{parent.level, best.hash, parent.margins, best.tree, best.total, best.score};
      add(changes_of({best.tree, step_level(parent, tree)}), state.margins);
      state.level[tree] = down_ ? state.level[tree] + 1 : state.level[tree] - 1;
      next.push_back(std::move(state));
    }
    beam_ = std::move(next);
    history_.emplace_back(found.begin(), found.end());
  }

  Scorer& scorer_;
  const Descent& descent_;
  const StepCosts& costs_;
  std::size_t width_;
  bool down_;
  double last_score_;
  std::vector<State> beam_;
  std::vector<std::vector<Move>> history_;
  std::map<Step, Tiles> changes_;  // of the steps tried last, because most of them can still be taken
};

}  // namespace

std::vector<std::int32_t> beam_order(Scorer& scorer, const StepCosts& costs, std::size_t width, bool down) {
  return Beam(scorer, costs, width, down).run();
}

}  // namespace scurry
