// Python's Descent and the searches for step orders.
#include <algorithm>
#include <stdexcept>

#include "bind/bind.h"
#include "orders/beam.h"
#include "orders/optimal.h"
#include "orders/position.h"
#include "orders/squirrel.h"

namespace scurry {

using namespace nb::literals;

namespace {

// Runs `work` without the interpreter lock and returns its result as an array.
template <class Work>
nb::object array_from(Work work) {
  return array_of(without_gil(work));
}

DescentInput make_input(const Array<std::int64_t>& tree_offset, const Array<std::int32_t>& left,
                        const Array<std::int32_t>& right, const Array<std::int32_t>& level, const IntMatrix& change,
                        const IntMatrix& leaf, const Array<std::int32_t>& target, const Array<std::int32_t>& start) {
  const std::size_t n_nodes = left.size();
  if (tree_offset.size() < 2 || right.size() != n_nodes || level.size() != n_nodes || change.shape(0) != n_nodes ||
      tree_offset(tree_offset.size() - 1) != static_cast<std::int64_t>(n_nodes)) {
    throw std::invalid_argument("the arrays of nodes differ in length");
  }
  if (change.shape(1) != start.size() || start.size() == 0) {
    throw std::invalid_argument("change and start must have the same outputs");
  }
  if (leaf.shape(0) != target.size() || leaf.shape(1) + 1 != tree_offset.size()) {
    throw std::invalid_argument("leaf must have shape (n_rows, n_trees)");
  }
  DescentInput input;
  input.tree_offset = span_of(tree_offset);
  input.left = span_of(left);
  input.right = span_of(right);
  input.level = span_of(level);
  input.change = {change.data(), change.size()};
  input.leaf = {leaf.data(), leaf.size()};
  input.target = span_of(target);
  input.start = span_of(start);
  return input;
}

void check_steps(const Descent& descent, const Array<std::int32_t>& steps, bool complete) {
  std::vector<std::size_t> level(descent.n_trees(), 0);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int32_t tree = steps(i);
    if (tree < 0 || static_cast<std::size_t>(tree) >= level.size() || ++level[tree] > descent.depth(tree)) {
      throw std::invalid_argument("a step is taken in a tree that has none left");
    }
  }
  if (complete && steps.size() != descent.n_steps()) throw std::invalid_argument("steps must be a whole order");
}

void bind_searches(nb::module_& m) {
  m.def(
      "squirrel_order",
      [](const Descent& descent, bool down) { return array_from([&] { return squirrel_order(descent, down); }); },
      "descent"_a, nb::kw_only(), "down"_a);
  m.def(
      "beam_order",
      [](const Descent& descent, double steepness, double same_tree, double other_tree, std::size_t width, bool down) {
        if (width == 0) throw std::invalid_argument("width must be positive");
        return array_from([&] {
          Scorer scorer(descent, steepness);
          return beam_order(scorer, {same_tree, other_tree}, width, down);
        });
      },
      "descent"_a, nb::kw_only(), "steepness"_a, "same_tree"_a, "other_tree"_a, "width"_a, "down"_a);
  m.def(
      "refined_order",
      [](const Descent& descent, const Array<std::int32_t>& steps, double steepness, double same_tree,
         double other_tree, std::size_t max_states, std::size_t max_sweeps) {
        check_steps(descent, steps, true);
        return array_from([&] {
          Scorer scorer(descent, steepness);
          return refined_order(scorer, {same_tree, other_tree}, vector_of(steps), max_states, max_sweeps);
        });
      },
      "descent"_a, "steps"_a, nb::kw_only(), "steepness"_a, "same_tree"_a, "other_tree"_a, "max_states"_a,
      "max_sweeps"_a);
}

}  // namespace

void bind_orders(nb::module_& m) {
  nb::class_<Descent>(m, "Descent")
      .def(
          "__init__",
          [](Descent* self, const Array<std::int64_t>& tree_offset, const Array<std::int32_t>& left,
             const Array<std::int32_t>& right, const Array<std::int32_t>& level, const IntMatrix& change,
             const IntMatrix& leaf, const Array<std::int32_t>& target, const Array<std::int32_t>& start,
             bool regression, bool last_class_wins_ties) {
            DescentInput input = make_input(tree_offset, left, right, level, change, leaf, target, start);
            input.regression = regression;
            input.last_class_wins_ties = last_class_wins_ties;
            nb::gil_scoped_release release;
            new (self) Descent(input);
          },
          nb::kw_only(), "tree_offset"_a, "left"_a, "right"_a, "level"_a, "change"_a, "leaf"_a, "target"_a, "start"_a,
          "regression"_a, "last_class_wins_ties"_a)
      .def_prop_ro("n_steps", &Descent::n_steps)
      .def(
          "losses",
          [](const Descent& descent, const Array<std::int32_t>& steps) {
            check_steps(descent, steps, false);
            return array_from([&] { return losses_along(descent, span_of(steps)); });
          },
          "steps"_a);
  nb::class_<Squirrel>(m, "Squirrel")
      .def(nb::init<const Descent&, bool>(), "descent"_a, nb::kw_only(), "down"_a, nb::keep_alive<1, 2>(),
           nb::call_guard<nb::gil_scoped_release>())
      .def("look", [](Squirrel& squirrel) { return array_from([&] { return squirrel.look(); }); })
      .def(
          "step",
          [](Squirrel& squirrel, std::size_t tree) {
            if (tree >= squirrel.n_trees() || squirrel.done(tree)) {
              throw std::invalid_argument("this tree has no step left");
            }
            squirrel.step(tree);
          },
          "tree"_a);
  nb::class_<Grid>(m, "Grid")
      .def(nb::init<const Descent&>(), "descent"_a, nb::keep_alive<1, 2>(), nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("n_states", &Grid::n_states)
      .def("seconds", &optimal_seconds, "n_threads"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "optimal",
          [](const Grid& grid, bool worst, std::size_t n_threads, const nb::object& progress) {
            OptimalOptions options;
            options.worst = worst;
            options.n_threads = n_threads;
            options.progress = [&](double share) { report(progress, share); };
            return array_from([&] { return optimal_order(grid, options); });
          },
          nb::kw_only(), "worst"_a, "n_threads"_a, "progress"_a.none());
  bind_searches(m);
}

}  // namespace scurry
