// The only file that knows Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cmath>
#include <stdexcept>
#include <string>

#include "bind.h"
#include "engine.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace scurry;

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.shape(0)};
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

RowsView view_of(const Engine& engine, const Rows& rows) {
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

ForestView make_view(const Array<std::int64_t>& tree_offset, const Array<std::int32_t>& feature,
                     const Array<double>& threshold, const Array<std::int32_t>& left, const Array<std::int32_t>& right,
                     const nb::ndarray<const bool, nb::ndim<1>, nb::c_contig>& default_left, const Matrix& value,
                     const Array<std::uint8_t>& missing, const Array<std::int32_t>& tree_output,
                     const Array<double>& base_score, const Array<std::int32_t>& category_set,
                     const Array<std::int64_t>& category_offset, const Array<std::uint32_t>& category_bits) {
  ForestView forest;
  forest.tree_offset = span_of(tree_offset);
  forest.feature = span_of(feature);
  forest.threshold = span_of(threshold);
  forest.left = span_of(left);
  forest.right = span_of(right);
  forest.default_left = {reinterpret_cast<const std::uint8_t*>(default_left.data()), default_left.shape(0)};
  forest.value = value.data();
  forest.n_columns = value.shape(1);
  forest.missing = span_of(missing);
  forest.tree_output = span_of(tree_output);
  forest.base_score = span_of(base_score);
  forest.category_set = span_of(category_set);
  forest.category_offset = span_of(category_offset);
  forest.category_bits = span_of(category_bits);
  return forest;
}

}  // namespace

NB_MODULE(_core, m) {
  bind_closure(m);
  nb::class_<Engine>(m, "Engine")
      .def(
          "__init__",
          [](Engine* self, const Array<std::int64_t>& tree_offset, const Array<std::int32_t>& feature,
             const Array<double>& threshold, const Array<std::int32_t>& left, const Array<std::int32_t>& right,
             const nb::ndarray<const bool, nb::ndim<1>, nb::c_contig>& default_left, const Matrix& value,
             const Array<std::uint8_t>& missing, const Array<std::int32_t>& tree_output, const Array<double>& base_score,
             const Array<std::int32_t>& category_set, const Array<std::int64_t>& category_offset,
             const Array<std::uint32_t>& category_bits, std::size_t n_features, const std::string& aggregation,
             const std::string& input_dtype, const std::string& score_dtype, const std::string& comparison,
             const std::string& link, double link_scale, const std::string& label_from, double decision_threshold,
             const std::string& category_rounding, const Array<std::int64_t>& classes, std::size_t n_classes, bool leaf_ids) {
            ForestView forest = make_view(tree_offset, feature, threshold, left, right, default_left, value, missing,
                                          tree_output, base_score, category_set, category_offset, category_bits);
            forest.n_features = n_features;
            forest.n_classes = n_classes;
            forest.aggregation = parse<Aggregation>("aggregation", aggregation, {"mean", "vote", "sum"});
            forest.float32_input = input_dtype == "float32";
            forest.float32_score = score_dtype == "float32";
            forest.strict_comparison = comparison == "<";
            forest.label_from_score = label_from == "score";
            forest.truncate_categories = category_rounding == "trunc";
            forest.link = parse<Link>("link", link, {"identity", "logistic", "softmax", "logistic-each", "exp",
                                                     "signed-square", "log1p-exp", "step"});
            forest.link_scale = link_scale;
            forest.decision_threshold = decision_threshold;
            std::vector<std::int64_t> labels(classes.data(), classes.data() + classes.shape(0));
            nb::gil_scoped_release release;
            new (self) Engine(forest, std::move(labels), leaf_ids);
          },
          nb::kw_only(), "tree_offset"_a, "feature"_a, "threshold"_a, "left"_a, "right"_a, "default_left"_a, "value"_a,
          "missing"_a, "tree_output"_a, "base_score"_a, "category_set"_a, "category_offset"_a, "category_bits"_a,
          "n_features"_a, "aggregation"_a, "input_dtype"_a, "score_dtype"_a, "comparison"_a, "link"_a, "link_scale"_a,
          "label_from"_a, "decision_threshold"_a, "category_rounding"_a, "classes"_a, "n_classes"_a, "leaf_ids"_a)
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
  m.def("logistic_threshold", &logistic_threshold, "scale"_a, "float32"_a);
  // The C library's own logf, which numpy's vectorised float32 logarithm differs from in the last bit.
  m.def("log_float32", [](float x) { return std::log(x); }, "x"_a);
  m.def("kernels", [] { return kernels().name; });
}
