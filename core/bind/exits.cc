// Python's EarlyExit, LeaderExit and SentinelExit.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "bind/one_row.h"
#include "runtime/early_exit.h"
#include "runtime/leader_exit.h"
#include "runtime/sentinel_exit.h"

namespace scurry {

using namespace nb::literals;

namespace {

std::int64_t largest(std::span<const std::int32_t> values) {
  std::int64_t most = 0;
  for (const std::int32_t value : values) most = std::max(most, std::abs(std::int64_t{value}));
  return most;
}

// Throws unless all sums fit in 32 bits, whatever the order of the trees: they begin at `start`, and a leaf adds its
// payload, or the row of `vectors` that it stands for.
void check_sums(const Walker& walker, std::span<const std::int32_t> vectors, std::span<const std::int32_t> start) {
  std::int64_t most = largest(start);
  std::vector<std::int64_t> of_vector(start.empty() ? 0 : vectors.size() / start.size());
  for (std::size_t i = 0; i < of_vector.size(); ++i) {
    of_vector[i] = largest(vectors.subspan(i * start.size(), start.size()));
  }
  for (const Tree& tree : walker.trees()) {
    std::int64_t of_tree = 0;
    walker.for_each_leaf(tree, [&](std::uint32_t payload) {
      const std::int64_t adds = of_vector.empty() ? std::abs(std::int64_t{static_cast<std::int32_t>(payload)})
                                : payload < of_vector.size() ? of_vector[payload] : 0;
      of_tree = std::max(of_tree, adds);
    });
    most += of_tree;
  }
  if (most >= kNeverAbove) throw std::invalid_argument("sums of increments need 32 bits or more");
}

// The same for each lane by itself, from 0 on.
void check_lanes(const ForestView& forest, std::span<const std::int32_t> lanes) {
  const std::size_t width = lanes.size() / forest.n_nodes();
  std::vector<std::int64_t> most(width), of_tree(width);
  for (std::size_t tree = 0; tree < forest.n_trees(); ++tree) {
    std::ranges::fill(of_tree, 0);
    for (auto node = forest.tree_offset[tree]; node < forest.tree_offset[tree + 1]; ++node) {
      if (forest.left[node] >= 0) continue;
      const auto leaf = lanes.subspan(static_cast<std::size_t>(node) * width, width);
      for (std::size_t i = 0; i < width; ++i) of_tree[i] = std::max(of_tree[i], std::abs(std::int64_t{leaf[i]}));
    }
    for (std::size_t i = 0; i < width; ++i) most[i] += of_tree[i];
  }
  if (std::ranges::any_of(most, [](std::int64_t sum) { return sum >= kNeverAbove; })) {
    throw std::invalid_argument("sums of lanes need 32 bits or more");
  }
}

void check_exact(std::size_t n_features, const Engine& exact) {
  if (exact.n_features() != n_features) throw std::invalid_argument("the exact engine is of another forest");
}

// The trees of a forest whose leaves have these payloads, by node.
Walker lower_nodes(const ForestArrays& forest, const Array<std::int32_t>& payloads) {
  if (payloads.shape(0) != forest.view.n_nodes()) throw std::invalid_argument("a payload is needed for every node");
  Leaves leaves;
  leaves.payload_of_node.assign(payloads.data(), payloads.data() + payloads.size());
  return Walker(forest.view, std::move(leaves));
}

EarlyExit make_early_exit(const Walker& nodes, const Array<std::int32_t>& order, const Array<double>& weights,
                          const IntMatrix& lower, const IntMatrix& upper, const Array<std::uint32_t>& piece_offset,
                          const Array<std::int32_t>& piece_edges, const Array<std::uint8_t>& piece_sides,
                          std::uint64_t seed, bool shuffle_rows) {
  if (lower.shape(0) != weights.shape(0) || upper.shape(0) != weights.shape(0)) {
    throw std::invalid_argument("a policy needs a weight and thresholds");
  }
  check_sums(nodes, {}, {});
  std::vector<ExitPolicy> policies;
  for (std::size_t p = 0; p < weights.shape(0); ++p) {
    const std::int32_t *low = lower.data() + p * lower.shape(1), *high = upper.data() + p * upper.shape(1);
    policies.push_back({weights(p), {low, low + lower.shape(1)}, {high, high + upper.shape(1)}});
  }
  ExitPieces pieces{vector_of(piece_offset), vector_of(piece_edges), std::vector<ExitSide>(piece_sides.size())};
  std::ranges::transform(span_of(piece_sides), pieces.sides.begin(), [](auto side) { return ExitSide{side}; });
  return EarlyExit(nodes, span_of(order), std::move(policies), std::move(pieces), seed, shuffle_rows);
}

LeaderExit make_leader_exit(LeaderLeaves leaves, const Array<std::int32_t>& order, std::size_t trees_per_round,
                            const Array<std::int32_t>& start, const Array<std::int32_t>& lead, const IntMatrix& need) {
  if (trees_per_round == 0) throw std::invalid_argument("a round has at least one tree");
  const auto is_vote = [](std::int32_t x) { return x == 0 || x == 1; };
  const bool adds_votes = trees_per_round == 1 && largest(span_of(start)) == 0 && !leaves.vectors.empty() &&
                          std::ranges::all_of(leaves.vectors, is_vote);
  if (need.size() > 0 && !adds_votes) throw std::invalid_argument("votes can be needed where a tree adds one vote");
  check_sums(leaves.walker, leaves.vectors, span_of(start));
  return LeaderExit(std::move(leaves), span_of(order), trees_per_round, vector_of(start),
                    {vector_of(lead), {need.data(), need.data() + need.size()}});
}

// Lowers the trees of a forest whose nodes add these rows of increments.
LeaderLeaves lower_vectors(const ForestArrays& forest, const IntMatrix& increments, const Array<std::int32_t>& start) {
  if (increments.shape(0) != forest.view.n_nodes() || increments.shape(1) != forest.view.n_columns) {
    throw std::invalid_argument("an increment is needed for every node");
  }
  if (start.size() != forest.view.n_outputs()) throw std::invalid_argument("a start is needed for every output");
  return LeaderLeaves::lower(forest.view, {increments.data(), increments.size()});
}

// Python's Nodes: a Walker whose payloads are what leaves add, of its own or with the trees of an engine.
void bind_nodes(nb::module_& m) {
  nb::class_<Walker>(m, "Nodes", nb::is_weak_referenceable())
      .def(
          "__init__",
          [](Walker* self, const ForestArrays& forest, const Array<std::int32_t>& payloads) {
            nb::gil_scoped_release release;
            new (self) Walker(lower_nodes(forest, payloads));
          },
          "forest"_a, "payloads"_a)
      // An engine that is mapped holds the memory of the trees.
      .def(
          "__init__",
          [](Walker* self, const Engine& engine, const Array<std::int32_t>& payloads) {
            const std::vector<std::uint32_t> of_values(payloads.data(), payloads.data() + payloads.size());
            nb::gil_scoped_release release;
            new (self) Walker(engine.share(of_values));
          },
          "engine"_a, "payloads"_a, nb::keep_alive<1, 2>())
      .def_prop_ro("should_merge", &Walker::should_merge)
      .def_prop_ro("bytes", &Walker::bytes)
      .def_prop_ro("shared_bytes", &Walker::shared_bytes);
}

SentinelExit make_sentinel_exit(const ForestArrays& forest, const Array<std::int64_t>& classes,
                                const Array<std::int32_t>& order, const IntMatrix& lanes, std::int32_t spread_lane,
                                const Array<std::int32_t>& sentinels, const Array<std::int32_t>& lane,
                                const Array<double>& scale, const Array<double>& offset, const Array<double>& square,
                                const Array<std::uint32_t>& edge_offset, const Array<std::int32_t>& edges,
                                const Array<double>& limits, const SharedTrees& shared) {
  const std::size_t n = sentinels.size();
  const std::span<const std::int32_t> adds{lanes.data(), lanes.size()};
  if (lanes.shape(0) != forest.view.n_nodes()) throw std::invalid_argument("lanes are needed for every node");
  if (lane.size() != n || scale.size() != n || offset.size() != n || square.size() != n || edge_offset.size() != n + 1 ||
      edge_offset(0) != 0 || edge_offset(n) != edges.size() || limits.size() != edges.size() + n ||
      !std::ranges::is_sorted(span_of(edge_offset)) || spread_lane < kNoLane ||
      spread_lane >= static_cast<std::int64_t>(lanes.shape(1))) {
    throw std::invalid_argument("the parts of a sentinel rule do not fit together");
  }
  check_lanes(forest.view, adds);
  std::vector<Sentinel> tests;
  for (std::size_t j = 0; j < n; ++j) {
    const std::int32_t* edge = edges.data() + edge_offset(j);
    const std::size_t n_edges = edge_offset(j + 1) - edge_offset(j);
    if (sentinels(j) < 0 || lane(j) < 0) throw std::invalid_argument("a sentinel has a number of trees and a lane");
    if (!std::is_sorted(edge, edge + n_edges)) throw std::invalid_argument("edges must rise");
    const double* limit = limits.data() + edge_offset(j) + j;
    tests.push_back({static_cast<std::size_t>(sentinels(j)),
                     static_cast<std::size_t>(lane(j)),
                     scale(j),
                     offset(j),
                     square(j),
                     {edge, edge + n_edges},
                     {limit, limit + n_edges + 1}});
  }
  return SentinelExit(forest.view, vector_of(classes), span_of(order), adds, spread_lane, std::move(tests), shared);
}

void bind_early_exit(nb::module_& m) {
  nb::class_<EarlyExit> type(m, "EarlyExit");
  type.def(
          "__init__",
          [](EarlyExit* self, const Walker& nodes, const Array<std::int32_t>& order, const Array<double>& weights,
             const IntMatrix& lower, const IntMatrix& upper, const Array<std::uint32_t>& piece_offset,
             const Array<std::int32_t>& piece_edges, const Array<std::uint8_t>& piece_sides, std::uint64_t seed,
             bool shuffle_rows) {
            nb::gil_scoped_release release;
            new (self) EarlyExit(make_early_exit(nodes, order, weights, lower, upper, piece_offset, piece_edges,
                                                 piece_sides, seed, shuffle_rows));
          },
          "nodes"_a, nb::kw_only(), "order"_a, "weights"_a, "lower"_a, "upper"_a, "piece_offset"_a, "piece_edges"_a,
          "piece_sides"_a, "seed"_a, "shuffle_rows"_a, nb::keep_alive<1, 2>())
      .def("run",
           [](const EarlyExit& exit, const Rows& rows, const Out<std::int32_t>& sums, const Out<std::int32_t>& n_trees,
              const Out<std::uint8_t>& sides, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(sums.size(), view.n_rows);
             check_output(n_trees.size(), view.n_rows);
             check_output(sides.size(), view.n_rows);
             without_gil(view.n_rows * exit.n_trees(), [&] {
               exit.run(view, {sums.data(), n_trees.data(), reinterpret_cast<ExitSide*>(sides.data())}, n_threads);
             });
           })
      .def_prop_ro("bytes", &EarlyExit::bytes)
      .def_prop_ro("shared_bytes", &EarlyExit::shared_bytes);
  define_decisions(type);
}

void bind_leader_exit(nb::module_& m) {
  nb::class_<LeaderExit>(m, "LeaderExit")
      .def(
          "__init__",
          [](LeaderExit* self, const ForestArrays& forest, const Array<std::int32_t>& order,
             std::size_t trees_per_round, const IntMatrix& increments, const Array<std::int32_t>& start,
             const Array<std::int32_t>& lead, const IntMatrix& need) {
            nb::gil_scoped_release release;
            new (self) LeaderExit(make_leader_exit(lower_vectors(forest, increments, start), order, trees_per_round,
                                                   start, lead, need));
          },
          "forest"_a, nb::kw_only(), "order"_a, "trees_per_round"_a, "increments"_a, "start"_a, "lead"_a, "need"_a)
      // With the trees of an engine: increments are by value, and vectors if those are.
      .def(
          "__init__",
          [](LeaderExit* self, const Engine& engine, const Array<std::int32_t>& order, std::size_t trees_per_round,
             const IntMatrix& increments, const Array<std::int32_t>& start, const Array<std::int32_t>& lead,
             const IntMatrix& need) {
            const std::size_t n_columns = engine.values().are_vectors() ? engine.n_outputs() : 1;
            if (increments.shape(0) != engine.n_values() || increments.shape(1) != n_columns ||
                start.size() != engine.n_outputs()) {
              throw std::invalid_argument("an increment is needed for every value");
            }
            nb::gil_scoped_release release;
            const std::vector<std::int32_t> adds(increments.data(), increments.data() + increments.size());
            LeaderLeaves leaves = n_columns > 1
                                      ? LeaderLeaves{engine.share(), adds}
                                      : LeaderLeaves{engine.share(std::vector<std::uint32_t>(adds.begin(), adds.end())), {}};
            new (self) LeaderExit(make_leader_exit(std::move(leaves), order, trees_per_round, start, lead, need));
          },
          "engine"_a, nb::kw_only(), "order"_a, "trees_per_round"_a, "increments"_a, "start"_a, "lead"_a, "need"_a,
          nb::keep_alive<1, 2>())
      .def("run",
           [](const LeaderExit& exit, const Rows& rows, const Out<std::int32_t>& sums, const Out<std::int32_t>& n_trees,
              const Out<std::int32_t>& leaders, const Out<std::uint8_t>& decided, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(sums.size(), view.n_rows * exit.n_classes());
             check_output(n_trees.size(), view.n_rows);
             check_output(leaders.size(), view.n_rows);
             check_output(decided.size(), view.n_rows);
             without_gil(view.n_rows * exit.n_trees(), [&] {
               exit.run(view, {sums.data(), n_trees.data(), leaders.data(), decided.data()}, n_threads);
             });
           })
      .def("labels",
           [](const LeaderExit& exit, const Rows& rows, const Out<std::int64_t>& out, const Engine& exact,
              const Array<std::int64_t>& classes, std::int32_t tolerance, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(out.size(), view.n_rows);
             check_output(classes.size(), exit.n_classes());
             check_exact(exit.n_features(), exact);
             without_gil(view.n_rows * exit.n_trees(),
                         [&] { exit.labels(view, span_of(classes), tolerance, exact, out.data(), n_threads); });
           })
      .def(
          "one_row",
          [](nb::handle self, nb::handle engine, const Array<std::int64_t>& classes, std::int32_t tolerance,
             nb::object labels, const RowsTaken& taken) {
            const auto& exit = nb::cast<const LeaderExit&>(self);
            const auto& exact = nb::cast<const Engine&>(engine);
            check_exact(exit.n_features(), exact);
            check_output(classes.size(), exit.n_classes());
            check_labels(labels, exit.n_classes());
            return make_one_row(
                exit.n_features(), taken,
                [&exit, &exact, classes = vector_of(classes), tolerance, labels,
                 alive = nb::make_tuple(self, engine)](auto& row) {
                  std::int64_t label;
                  without_gil(exit.n_trees(), [&] { exit.labels(row, classes, tolerance, exact, &label, 1); });
                  return label_of(labels, label);
                });
          },
          "exact"_a, "classes"_a, "tolerance"_a, nb::kw_only(), "labels"_a.none(), "rows"_a)
      .def_prop_ro("bytes", &LeaderExit::bytes)
      .def_prop_ro("shared_bytes", &LeaderExit::shared_bytes);
}

void bind_sentinel_exit(nb::module_& m) {
  nb::class_<SentinelExit>(m, "SentinelExit")
      .def(
          "__init__",
          [](SentinelExit* self, const ForestArrays& forest, const Array<std::int64_t>& classes,
             const Array<std::int32_t>& order, const IntMatrix& lanes, std::int32_t spread_lane,
             const Array<std::int32_t>& sentinels, const Array<std::int32_t>& lane, const Array<double>& scale,
             const Array<double>& offset, const Array<double>& square, const Array<std::uint32_t>& edge_offset,
             const Array<std::int32_t>& edges, const Array<double>& limits, const Engine* engine,
             const std::optional<Array<std::int32_t>>& value_of_node) {
            SharedTrees shared;
            if (engine != nullptr && value_of_node) shared = {engine, span_of(*value_of_node)};
            nb::gil_scoped_release release;
            new (self) SentinelExit(make_sentinel_exit(forest, classes, order, lanes, spread_lane, sentinels, lane,
                                                       scale, offset, square, edge_offset, edges, limits, shared));
          },
          "forest"_a, nb::kw_only(), "classes"_a, "order"_a, "lanes"_a, "spread_lane"_a, "sentinels"_a, "lane"_a,
          "scale"_a, "offset"_a, "square"_a, "edge_offset"_a, "edges"_a, "limits"_a, "engine"_a.none() = nb::none(),
          "value_of_node"_a = nb::none(), nb::keep_alive<1, 15>())
      .def(
          "run",
          [](const SentinelExit& exit, const Rows& rows, std::size_t n_threads,
             const std::optional<Out<std::int32_t>>& stops, const std::optional<Out<double>>& scores,
             const std::optional<Out<std::int64_t>>& labels, const std::optional<Out<double>>& probabilities) {
            const RowsView view = view_of(exit, rows);
            const auto checked = [&](const auto& out, std::size_t width) {
              if (out) check_output(out->size(), view.n_rows * width);
              return out ? out->data() : nullptr;
            };
            const SentinelOutcome outcome{checked(stops, 1), checked(scores, 1), checked(labels, 1),
                                          checked(probabilities, exit.n_probabilities())};
            without_gil(view.n_rows * exit.n_trees(), [&] { exit.run(view, outcome, n_threads); });
          },
          "rows"_a, "n_threads"_a, nb::kw_only(), "stops"_a = nb::none(), "scores"_a = nb::none(),
          "labels"_a = nb::none(), "probabilities"_a = nb::none())
      .def(
          "rank",
          [](const SentinelExit& exit, const Rows& rows, const Array<std::int64_t>& offset, std::size_t k, bool as_set,
             const Out<double>& scores, std::size_t n_threads, const std::optional<Out<std::int32_t>>& stops) {
            const RowsView view = view_of(exit, rows);
            if (stops) check_output(stops->size(), view.n_rows);
            check_output(scores.size(), view.n_rows);
            if (k == 0 || offset.size() == 0 || offset(0) != 0 || !std::ranges::is_sorted(span_of(offset)) ||
                static_cast<std::size_t>(offset(offset.size() - 1)) != view.n_rows) {
              throw std::invalid_argument("queries must cover the rows, and k must be above 0");
            }
            without_gil(view.n_rows * exit.n_trees(), [&] {
              const SentinelOutcome outcome{stops ? stops->data() : nullptr, scores.data(), nullptr, nullptr};
              exit.rank(view, span_of(offset), {k, as_set}, outcome, n_threads);
            });
          },
          "rows"_a, "offset"_a, nb::kw_only(), "k"_a, "as_set"_a, "scores"_a, "n_threads"_a, "stops"_a = nb::none())
      .def(
          "one_row",
          [](nb::handle self, const std::string& answer, nb::object labels, const RowsTaken& taken) {
            const auto& exit = nb::cast<const SentinelExit&>(self);
            check_labels(labels, exit.n_probabilities());
            const bool is_label = answer == "label", is_value = answer == "value";
            return make_one_row(
                exit.n_features(), taken,
                [&exit, is_label, is_value, labels, alive = nb::borrow(self)](const RowsView& row) {
                  const std::size_t width = exit.n_probabilities();
                  return with_room(width, [&](double* values) {
                    std::int64_t label = 0;
                    const SentinelOutcome outcome{nullptr, nullptr, is_label ? &label : nullptr,
                                                  is_label ? nullptr : values};
                    without_gil(exit.n_trees(), [&] { exit.run(row, outcome, 1); });
                    if (is_label) return label_of(labels, label);
                    return is_value ? nb::steal(PyFloat_FromDouble(values[0])) : tuple_of(values, width);
                  });
                });
          },
          "answer"_a, nb::kw_only(), "labels"_a.none(), "rows"_a)
      .def_prop_ro("bytes", &SentinelExit::bytes)
      .def_prop_ro("shared_bytes", &SentinelExit::shared_bytes);
}

}  // namespace

void bind_exits(nb::module_& m) {
  bind_nodes(m);
  bind_early_exit(m);
  bind_leader_exit(m);
  bind_sentinel_exit(m);
}

}  // namespace scurry
