// Python's CellExit, and the search for its cells.
#include "calibrate/cells.h"

#include <algorithm>
#include <limits>

#include "bind/one_row.h"
#include "calibrate/router.h"
#include "runtime/cell_exit.h"

namespace scurry {

using namespace nb::literals;

namespace {

void check_increments(const ForestArrays& forest, const Array<std::int32_t>& increments) {
  if (increments.shape(0) != forest.view.n_nodes()) {
    throw std::invalid_argument("an increment is needed for every node");
  }
}

// Throws unless the last of at least two trees is a router: numeric splits, no deeper than routers may be. Returns the
// number of its leaves.
std::size_t check_router(const ForestView& forest) {
  if (forest.n_trees() < 2) throw std::invalid_argument("a router is the last of at least two trees");
  const auto root = static_cast<std::size_t>(forest.tree_offset[forest.n_trees() - 1]);
  std::vector<std::size_t> depth(forest.n_nodes() - root);
  std::size_t n_cells = 0;
  for (std::size_t node = root; node < forest.n_nodes(); ++node) {
    if (forest.left[node] < 0) {
      ++n_cells;
      continue;
    }
    const std::size_t below = depth[node - root] + 1;
    if (forest.category_set[node] >= 0 || !sends_left(forest, forest.threshold[node]) || below > kMaxRouterDepth) {
      throw std::invalid_argument("a router has numeric splits, none at -inf, and at most 64 on a path");
    }
    for (const std::int32_t child : {forest.left[node], forest.right[node]}) {
      if (static_cast<std::size_t>(child) <= node || static_cast<std::size_t>(child) >= forest.n_nodes()) {
        throw std::invalid_argument("a child comes after its parent");
      }
      depth[static_cast<std::size_t>(child) - root] = below;
    }
  }
  return n_cells;
}

nb::tuple find(const ForestArrays& forest, const Array<std::int32_t>& increments, const Matrix& rows,
               std::size_t n_cells, const nb::object& progress) {
  check_increments(forest, increments);
  if (rows.shape(1) != forest.view.n_features) throw std::invalid_argument("rows have the wrong number of columns");
  if (rows.shape(0) > std::numeric_limits<std::int32_t>::max()) throw std::invalid_argument("more than 2^31 rows");
  const RouterTask task{forest.view, span_of(increments), rows.data(), rows.shape(0), n_cells};
  Router router =
      without_gil([&] { return find_router(task, [&](std::size_t n_done) { report(progress, n_done, n_cells); }); });
  return nb::make_tuple(array_of(std::move(router.source)), array_of(std::move(router.left)),
                        array_of(std::move(router.right)));
}

nb::object draw(const ForestArrays& forest, const Array<double>& cover, std::size_t n_rows, std::uint64_t seed) {
  if (cover.shape(0) != forest.view.n_nodes()) throw std::invalid_argument("a cover is needed for every node");
  return array_of(without_gil([&] { return draw_rows(forest.view, span_of(cover), n_rows, seed); }),
                  std::max<std::size_t>(forest.view.n_features, 1));
}

nb::tuple bound(const ForestArrays& forest, const Array<std::int32_t>& increments) {
  check_increments(forest, increments);
  check_router(forest.view);
  CellBounds bounds = without_gil([&] { return bound_cells(forest.view, span_of(increments)); });
  const std::size_t n_trees = forest.view.n_trees() - 1;
  return nb::make_tuple(array_of(std::move(bounds.least), n_trees), array_of(std::move(bounds.most), n_trees));
}

CellExit make_cell_exit(const ForestArrays& forest, const Array<std::int32_t>& increments, const IntMatrix& order,
                        const IntMatrix& lower, const IntMatrix& upper, const Array<std::int32_t>& first_open) {
  check_increments(forest, increments);
  const std::size_t n_cells = check_router(forest.view), n_trees = forest.view.n_trees() - 1;
  const auto root = static_cast<std::size_t>(forest.view.tree_offset[n_trees]);
  for (std::size_t node = root; node < forest.view.n_nodes(); ++node) {
    const bool names_cell = increments(node) >= 0 && static_cast<std::size_t>(increments(node)) < n_cells;
    if (forest.view.left[node] < 0 && !names_cell) throw std::invalid_argument("a leaf of the router names no cell");
  }
  std::int64_t most = 0;  // that a sum of any trees can be
  for (std::size_t t = 0; t < n_trees; ++t) {
    std::int64_t of_tree = 0;
    for (auto node = forest.view.tree_offset[t]; node < forest.view.tree_offset[t + 1]; ++node) {
      if (forest.view.left[node] < 0) of_tree = std::max(of_tree, std::abs(std::int64_t{increments(node)}));
    }
    most += of_tree;
  }
  if (most >= kNeverAbove) throw std::invalid_argument("sums of increments need 32 bits or more");
  const auto fits = [&](const IntMatrix& matrix, std::size_t n) {
    return matrix.shape(0) == n_cells && matrix.shape(1) == n;
  };
  if (!fits(order, n_trees) || !fits(lower, n_trees + 1) || !fits(upper, n_trees + 1) ||
      first_open.size() != n_cells) {
    throw std::invalid_argument("every cell needs an order, and thresholds for every number of trees");
  }
  const std::span<const std::int32_t> trees{order.data(), order.size()};
  if (!std::ranges::all_of(trees, [&](auto t) { return t >= 0 && static_cast<std::size_t>(t) < n_trees; })) {
    throw std::invalid_argument("an order names a tree that is not there");
  }
  return CellExit(forest.view, span_of(increments),
                  {trees, {lower.data(), lower.size()}, {upper.data(), upper.size()}, span_of(first_open)});
}

}  // namespace

void bind_cells(nb::module_& m) {
  m.def("find_router", &find, "forest"_a, nb::kw_only(), "increments"_a, "rows"_a, "n_cells"_a, "progress"_a.none());
  m.def("draw_rows", &draw, "forest"_a, nb::kw_only(), "cover"_a, "n_rows"_a, "seed"_a);
  m.def("bound_cells", &bound, "forest_and_router"_a, nb::kw_only(), "increments"_a);
  nb::class_<CellExit> type(m, "CellExit");
  type.def(
          "__init__",
          [](CellExit* self, const ForestArrays& forest, const Array<std::int32_t>& increments, const IntMatrix& order,
             const IntMatrix& lower, const IntMatrix& upper, const Array<std::int32_t>& first_open) {
            nb::gil_scoped_release release;
            new (self) CellExit(make_cell_exit(forest, increments, order, lower, upper, first_open));
          },
          "forest_and_router"_a, nb::kw_only(), "increments"_a, "order"_a, "lower"_a, "upper"_a, "first_open"_a)
      .def("run",
           [](const CellExit& exit, const Rows& rows, const Out<std::int32_t>& sums, const Out<std::int32_t>& n_trees,
              const Out<std::uint8_t>& sides, const Out<std::int32_t>& cells, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             for (const std::size_t size : {sums.size(), n_trees.size(), sides.size(), cells.size()}) {
               check_output(size, view.n_rows);
             }
             const ExitOutcome exits{sums.data(), n_trees.data(), reinterpret_cast<ExitSide*>(sides.data())};
             without_gil(view.n_rows * exit.n_trees(), [&] { exit.run(view, {exits, cells.data()}, n_threads); });
           })
      .def_prop_ro("bytes", &CellExit::bytes);
  define_decisions(type);
}

}  // namespace scurry
