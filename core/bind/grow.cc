// Python's ColumnOrders and the two kinds of tree growing.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "bind/bind.h"
#include "grow/classes.h"
#include "grow/residuals.h"

namespace scurry {

using namespace nb::literals;

namespace {

using FloatColumns = nb::ndarray<const float, nb::ndim<2>, nb::f_contig, nb::device::cpu>;

nb::dict as_dict(GrownTree&& tree, std::size_t n_columns) {
  nb::dict arrays;
  arrays["feature"] = array_of(std::move(tree.feature));
  arrays["threshold"] = array_of(std::move(tree.threshold));
  arrays["left"] = array_of(std::move(tree.left));
  arrays["right"] = array_of(std::move(tree.right));
  arrays["value"] = array_of(std::move(tree.value), n_columns);
  arrays["cover"] = array_of(std::move(tree.cover));
  return arrays;
}

void construct(ColumnOrders* self, const FloatColumns& values) {
  if (values.size() == 0) throw std::invalid_argument("values must have rows and columns");
  if (values.shape(0) > 0x7FFFFFFFu) throw std::invalid_argument("more than 2^31 - 1 rows");
  const std::span<const float> all{values.data(), values.size()};
  if (!std::ranges::all_of(all, [](float x) { return std::isfinite(x); })) {
    throw std::invalid_argument("a value is not finite");
  }
  nb::gil_scoped_release release;
  new (self) ColumnOrders(all, values.shape(0));
}

void check(bool fine, const char* what) {
  if (!fine) throw std::invalid_argument(what);
}

nb::dict classes(const ColumnOrders& columns, const Array<std::int32_t>& codes, const Array<std::int32_t>& weights,
                 const Array<double>& costs, std::size_t n_classes, const std::string& impurity, bool worst,
                 double alpha, std::size_t max_features, std::size_t max_depth, std::uint64_t seed) {
  const ClassTask task{span_of(codes),
                       span_of(weights),
                       span_of(costs),
                       n_classes,
                       impurity == "entropy" ? Impurity::kEntropy : Impurity::kPairs,
                       worst ? Halves::kWorst : Halves::kMean,
                       alpha,
                       max_features,
                       max_depth,
                       seed};
  check(impurity == "entropy" || impurity == "pairs", "unknown impurity");
  check(task.classes.size() == columns.n_rows() && task.weights.size() == columns.n_rows() &&
            task.costs.size() == columns.n_features(),
        "the parts of a task do not fit together");
  check(std::ranges::all_of(task.classes,
                            [&](std::int32_t c) { return c >= 0 && static_cast<std::size_t>(c) < n_classes; }),
        "a class is out of range");
  check(std::ranges::all_of(task.weights, [](std::int32_t w) { return w >= 0; }) &&
            std::ranges::any_of(task.weights, [](std::int32_t w) { return w > 0; }),
        "weights must not be negative, nor all 0");
  check(std::ranges::all_of(task.costs, [](double c) { return c >= 0 && std::isfinite(c); }) && alpha >= 0 &&
            max_features > 0,
        "costs and alpha must not be negative, max_features must be positive");
  return as_dict(without_gil([&] { return grow_classes(columns, task); }), n_classes);
}

nb::dict residuals(const ColumnOrders& columns, const Array<double>& targets, const Out<double>& prices,
                   std::size_t max_depth, const Out<std::int32_t>& leaf_of_row) {
  check(targets.shape(0) == columns.n_rows() && leaf_of_row.size() == columns.n_rows() &&
            prices.size() == columns.n_features(),
        "the parts of a task do not fit together");
  return as_dict(without_gil([&] {
                   return grow_residuals(columns, span_of(targets), {prices.data(), prices.size()}, max_depth,
                                         {leaf_of_row.data(), leaf_of_row.size()});
                 }),
                 1);
}

}  // namespace

void bind_grow(nb::module_& m) {
  nb::class_<ColumnOrders>(m, "ColumnOrders").def("__init__", &construct, "values"_a);
  m.def("grow_classes", &classes, "columns"_a, "classes"_a, "weights"_a, "costs"_a, nb::kw_only(), "n_classes"_a,
        "impurity"_a, "worst"_a, "alpha"_a, "max_features"_a, "max_depth"_a, "seed"_a);
  m.def("grow_residuals", &residuals, "columns"_a, "residuals"_a, "prices"_a, nb::kw_only(), "max_depth"_a,
        "leaf_of_row"_a);
}

}  // namespace scurry
