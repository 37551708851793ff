// The only file that knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "early_exit.h"
#include "engine.h"
#include "leader_exit.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace scurry;

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using Thresholds = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.shape(0)};
}

template <class T>
std::vector<T> vector_of(const Array<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}

template <class Enum>
Enum parse(const std::string& name, const std::string& value, std::initializer_list<const char*> names) {
  std::uint8_t index = 0;
  for (const char* candidate : names) {
    if (value == candidate) return static_cast<Enum>(index);
    ++index;
  }
  throw std::invalid_argument("unknown " + name + " " + value);
}

template <class Runner>
RowsView view_of(const Runner& engine, const Rows& rows) {
  const bool is_float32 = rows.dtype() == nb::dtype<float>();
  if (!is_float32 && rows.dtype() != nb::dtype<double>()) throw std::invalid_argument("rows must be float32 or float64");
  if (rows.shape(1) != engine.n_features()) throw std::invalid_argument("rows have the wrong number of columns");
  return {rows.data(), rows.shape(0), rows.stride(0), rows.stride(1), is_float32};
}

// Runs `work` without the interpreter lock unless the call is too short to be worth letting go.
template <class Work>
void without_gil(const Rows& rows, Work work) {
  if (rows.shape(0) <= 16) return work();
  nb::gil_scoped_release release;
  work();
}

void check_output(std::size_t got, std::size_t expected) {
  if (got != expected) throw std::invalid_argument("output array has the wrong size");
}

// A forest's arrays, kept alive, and the view of them that core/ works with.
struct ForestArrays {
  nb::object arrays;
  ForestView view;
};

template <class T>
std::span<const T> field(const nb::dict& arrays, const char* name) {
  return span_of(nb::cast<Array<T>>(arrays[name]));
}

ForestArrays make_forest(const nb::dict& arrays, const nb::dict& header) {
  ForestView view;
  view.tree_offset = field<std::int64_t>(arrays, "tree_offset");
  view.feature = field<std::int32_t>(arrays, "feature");
  view.threshold = field<double>(arrays, "threshold");
  view.left = field<std::int32_t>(arrays, "left");
  view.right = field<std::int32_t>(arrays, "right");
  const auto default_left = field<bool>(arrays, "default_left");
  view.default_left = {reinterpret_cast<const std::uint8_t*>(default_left.data()), default_left.size()};
  const Matrix value = nb::cast<Matrix>(arrays["value"]);
  view.value = value.data();
  view.n_columns = value.shape(1);
  view.missing = field<std::uint8_t>(arrays, "missing");
  view.tree_output = field<std::int32_t>(arrays, "tree_output");
  view.base_score = field<double>(arrays, "base_score");
  view.category_set = field<std::int32_t>(arrays, "category_set");
  view.category_offset = field<std::int64_t>(arrays, "category_offset");
  view.category_bits = field<std::uint32_t>(arrays, "category_bits");

  const auto text = [&](const char* name) { return nb::cast<std::string>(header[name]); };
  view.n_features = nb::cast<std::size_t>(header["n_features"]);
  view.n_classes = nb::cast<std::size_t>(header["n_classes"]);
  view.aggregation = parse<Aggregation>("aggregation", text("aggregation"), {"mean", "vote", "sum"});
  view.float32_input = text("input_dtype") == "float32";
  view.float32_score = text("score_dtype") == "float32";
  view.strict_comparison = text("comparison") == "<";
  view.label_from_score = text("label_from") == "score";
  view.truncate_categories = text("category_rounding") == "trunc";
  view.link = parse<Link>("link", text("link"), {"identity", "logistic", "softmax", "logistic-each", "exp",
                                                 "signed-square", "log1p-exp", "step"});
  view.link_scale = nb::cast<double>(header["link_scale"]);
  view.decision_threshold = nb::cast<double>(header["decision_threshold"]);
  return {arrays, view};
}

EarlyExit make_early_exit(const ForestArrays& forest, const Array<std::int32_t>& order, const Array<std::int32_t>& increments,
                          const Array<double>& weights, const Thresholds& lower, const Thresholds& upper,
                          const Array<std::uint32_t>& piece_offset, const Array<std::int32_t>& piece_edges,
                          const Array<std::uint8_t>& piece_sides, std::int32_t start, std::uint64_t seed,
                          bool shuffle_rows) {
  if (increments.shape(0) != forest.view.n_nodes()) throw std::invalid_argument("an increment is needed for every node");
  std::vector<ExitPolicy> policies;
  for (std::size_t p = 0; p < weights.shape(0); ++p) {
    const std::int32_t *low = &lower(p, 0), *high = &upper(p, 0);
    policies.push_back({weights(p), {low, low + lower.shape(1)}, {high, high + upper.shape(1)}});
  }
  ExitPieces pieces{vector_of(piece_offset), vector_of(piece_edges), vector_of(piece_sides)};
  return EarlyExit(forest.view, span_of(order), span_of(increments), std::move(policies), std::move(pieces), start, seed,
                   shuffle_rows);
}

}  // namespace

NB_MODULE(_core, m) {
  nb::class_<ForestArrays>(m, "ForestArrays")
      .def("__init__", [](ForestArrays* self, const nb::dict& arrays, const nb::dict& header) {
        new (self) ForestArrays(make_forest(arrays, header));
      });
  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine* self, const ForestArrays& forest, const Array<std::int64_t>& classes, bool leaf_ids) {
            std::vector<std::int64_t> labels(classes.data(), classes.data() + classes.shape(0));
            nb::gil_scoped_release release;
            new (self) Engine(forest.view, std::move(labels), leaf_ids);
          },
          "forest"_a, nb::kw_only(), "classes"_a, "leaf_ids"_a)
      .def("labels",
           [](const Engine& engine, const Rows& rows, const Out<std::int64_t>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows);
             without_gil(rows, [&] { engine.labels(view, out.data(), n_threads); });
           })
      .def("probabilities",
           [](const Engine& engine, const Rows& rows, const Out<double>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows * engine.n_probabilities());
             without_gil(rows, [&] { engine.probabilities(view, out.data(), n_threads); });
           })
      .def("scores",
           [](const Engine& engine, const Rows& rows, const Out<double>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows * engine.n_outputs());
             without_gil(rows, [&] { engine.scores(view, out.data(), n_threads); });
           })
      .def("leaves",
           [](const Engine& engine, const Rows& rows, const Out<std::int32_t>& out, std::size_t n_threads) {
             const RowsView view = view_of(engine, rows);
             check_output(out.size(), view.n_rows * engine.n_trees());
             if (!engine.leaf_ids()) throw std::invalid_argument("this engine was not lowered for leaves");
             without_gil(rows, [&] { engine.leaves(view, out.data(), n_threads); });
           })
      .def_prop_ro("node_bytes", &Engine::node_bytes)
      .def_prop_ro("leaf_bytes", &Engine::leaf_bytes);
  nb::class_<EarlyExit>(m, "EarlyExit")
      .def(
          "__init__",
          [](EarlyExit* self, const ForestArrays& forest, const Array<std::int32_t>& order,
             const Array<std::int32_t>& increments, const Array<double>& weights, const Thresholds& lower,
             const Thresholds& upper, const Array<std::uint32_t>& piece_offset, const Array<std::int32_t>& piece_edges,
             const Array<std::uint8_t>& piece_sides, std::int32_t start, std::uint64_t seed, bool shuffle_rows) {
            new (self) EarlyExit(make_early_exit(forest, order, increments, weights, lower, upper, piece_offset,
                                                 piece_edges, piece_sides, start, seed, shuffle_rows));
          },
          "forest"_a, nb::kw_only(), "order"_a, "increments"_a, "weights"_a, "lower"_a, "upper"_a, "piece_offset"_a,
          "piece_edges"_a, "piece_sides"_a, "start"_a, "seed"_a, "shuffle_rows"_a)
      .def("run",
           [](const EarlyExit& exit, const Rows& rows, const Out<std::int32_t>& sums, const Out<std::int32_t>& n_trees,
              const Out<std::uint8_t>& sides, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(sums.size(), view.n_rows);
             check_output(n_trees.size(), view.n_rows);
             check_output(sides.size(), view.n_rows);
             without_gil(rows, [&] { exit.run(view, {sums.data(), n_trees.data(), sides.data()}, n_threads); });
           })
      .def("labels",
           [](const EarlyExit& exit, const Rows& rows, const Out<std::int64_t>& out, const Engine& exact,
              std::int64_t lower_label, std::int64_t upper_label, std::int32_t threshold, std::int32_t tolerance,
              std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(out.size(), view.n_rows);
             without_gil(rows, [&] {
               exit.labels(view, {lower_label, upper_label, threshold, tolerance}, exact, out.data(), n_threads);
             });
           })
      .def_prop_ro("bytes", &EarlyExit::bytes);
  nb::class_<LeaderExit>(m, "LeaderExit")
      .def(
          "__init__",
          [](LeaderExit* self, const ForestArrays& forest, const Array<std::int32_t>& order, std::size_t trees_per_round,
             const Thresholds& increments, const Array<std::int32_t>& start, const Array<std::int32_t>& lead,
             const Thresholds& need) {
            if (increments.shape(0) != forest.view.n_nodes() || increments.shape(1) != forest.view.n_columns) {
              throw std::invalid_argument("an increment is needed for every node");
            }
            if (trees_per_round == 0) throw std::invalid_argument("a round has at least one tree");
            new (self) LeaderExit(forest.view, span_of(order), trees_per_round, {increments.data(), increments.size()},
                                  vector_of(start), {vector_of(lead), {need.data(), need.data() + need.size()}});
          },
          "forest"_a, nb::kw_only(), "order"_a, "trees_per_round"_a, "increments"_a, "start"_a, "lead"_a, "need"_a)
      .def("run",
           [](const LeaderExit& exit, const Rows& rows, const Out<std::int32_t>& sums, const Out<std::int32_t>& n_trees,
              const Out<std::int32_t>& leaders, const Out<std::uint8_t>& decided, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(sums.size(), view.n_rows * exit.n_classes());
             check_output(n_trees.size(), view.n_rows);
             check_output(leaders.size(), view.n_rows);
             check_output(decided.size(), view.n_rows);
             without_gil(rows, [&] {
               exit.run(view, {sums.data(), n_trees.data(), leaders.data(), decided.data()}, n_threads);
             });
           })
      .def("labels",
           [](const LeaderExit& exit, const Rows& rows, const Out<std::int64_t>& out, const Engine& exact,
              const Array<std::int64_t>& classes, std::int32_t tolerance, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(out.size(), view.n_rows);
             check_output(classes.size(), exit.n_classes());
             without_gil(rows, [&] { exit.labels(view, span_of(classes), tolerance, exact, out.data(), n_threads); });
           })
      .def_prop_ro("bytes", &LeaderExit::bytes);
  m.def("logistic_threshold", &logistic_threshold, "scale"_a, "float32"_a);
  // The C library's own logf, which numpy's vectorised float32 logarithm differs from in the last bit.
  m.def("log_float32", [](float x) { return std::log(x); }, "x"_a);
  m.def("kernels", [] { return kernels().name; });
}
