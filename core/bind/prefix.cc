// Python's greedy_order and refit_leaves.
#include "calibrate/prefix.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "bind/bind.h"

namespace scurry {

using namespace nb::literals;

namespace {

template <class Leaf>
using Leaves = nb::ndarray<const Leaf, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class Leaf>
LeafTable<Leaf> table_of(const Leaves<Leaf>& leaves, const Array<std::int64_t>& offset, const Array<double>& weight,
                         const Array<double>& target, double ridge) {
  const LeafTable<Leaf> table{leaves.data(), span_of(offset), span_of(weight), ridge};
  if (leaves.size() == 0 || offset.shape(0) != leaves.shape(0) + 1 || weight.shape(0) != leaves.shape(1) ||
      target.shape(0) != leaves.shape(1)) {
    throw std::invalid_argument("leaves must have shape (n_trees, n_rows), neither zero");
  }
  if (!(ridge > 0.0)) throw std::invalid_argument("ridge must be above 0");
  for (std::size_t row = 0; row < table.n_rows(); ++row) {
    if (!(weight.data()[row] >= 0.0) || !std::isfinite(weight.data()[row]) || !std::isfinite(target.data()[row])) {
      throw std::invalid_argument("weights and targets must be finite, and no weight negative");
    }
  }
  if (table.offset[0] != 0) throw std::invalid_argument("offset must start at 0");
  for (std::size_t tree = 0; tree < table.n_trees(); ++tree) {
    if (table.offset[tree + 1] <= table.offset[tree]) throw std::invalid_argument("offset must rise");
    const Leaf most = *std::max_element(table.column(tree), table.column(tree) + table.n_rows());
    if (most >= table.n_leaves(tree)) throw std::invalid_argument("a leaf is not among those of its tree");
  }
  return table;
}

template <class Leaf>
nb::tuple order(const Leaves<Leaf>& leaves, const Array<std::int64_t>& offset, const Array<double>& weight,
                const Array<double>& target, double ridge, std::size_t n_steps, double shrink, bool exact,
                const nb::object& progress) {
  const LeafTable<Leaf> table = table_of(leaves, offset, weight, target, ridge);
  GreedyTask task;
  task.n_steps = std::min(n_steps, table.n_trees());
  task.shrink = shrink;
  task.is_exact = exact;
  std::vector<double> residual = vector_of(target);
  GreedyOrder found = without_gil([&] {
    return greedy_order(table, task, residual,
                        [&](std::size_t n_done) { report(progress, n_done, task.n_steps); });
  });
  return nb::make_tuple(array_of(std::move(found.order)), array_of(std::move(found.gains)),
                        array_of(std::move(residual)));
}

template <class Leaf>
nb::tuple refit(const Leaves<Leaf>& leaves, const Array<std::int64_t>& offset, const Array<double>& weight,
                const Array<double>& target, double ridge, const Array<std::int64_t>& trees, std::size_t n_sweeps,
                double rate, const nb::object& progress) {
  const LeafTable<Leaf> table = table_of(leaves, offset, weight, target, ridge);
  for (const std::int64_t tree : span_of(trees)) {
    if (tree < 0 || static_cast<std::size_t>(tree) >= table.n_trees()) throw std::invalid_argument("unknown tree");
  }
  std::vector<double> residual = vector_of(target);
  std::vector<double> corrections = without_gil([&] {
    return refit_leaves(table, span_of(trees), n_sweeps, rate, residual,
                        [&](std::size_t n_done) { report(progress, n_done, n_sweeps); });
  });
  return nb::make_tuple(array_of(std::move(corrections)), array_of(std::move(residual)));
}

template <class Leaf>
void bind_for(nb::module_& m) {
  m.def("greedy_order", &order<Leaf>, "leaves"_a, "offset"_a, "weight"_a, "target"_a, nb::kw_only(), "ridge"_a,
        "n_steps"_a, "shrink"_a, "exact"_a, "progress"_a.none());
  m.def("refit_leaves", &refit<Leaf>, "leaves"_a, "offset"_a, "weight"_a, "target"_a, nb::kw_only(), "ridge"_a,
        "trees"_a, "n_sweeps"_a, "rate"_a, "progress"_a.none());
}

}  // namespace

void bind_prefix(nb::module_& m) {
  bind_for<std::uint8_t>(m);
  bind_for<std::uint16_t>(m);
}

}  // namespace scurry
