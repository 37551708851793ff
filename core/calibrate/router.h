// Router: a small tree over the splits of a forest whose leaves are the cells of `cells.h`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/forest_view.h"

namespace scurry {

// A row passes at most this many node tests before it is in its cell.
constexpr std::size_t kMaxRouterDepth = 64;

// A router over the splits of a forest. Its root comes first, children after their parent.
struct Router {
  std::vector<std::int32_t> source;  // the node of the forest whose split is used; -1 at a cell
  std::vector<std::int32_t> left, right;
};

struct RouterTask {
  const ForestView& forest;
  std::span<const std::int32_t> increments;  // by node, read at leaves
  const double* rows;                        // [n_rows][n_features]: where cells should be small
  std::size_t n_rows;
  std::size_t n_cells;
};

// Splits the cell with the largest product of rows and summed ranges of trees, again and again.
Router find_router(const RouterTask& task, const std::function<void(std::size_t n_cells)>& progress);

// Rows as the covers of nodes describe the training rows; where there are none, both children are as probable.
std::vector<double> draw_rows(const ForestView& forest, std::span<const double> cover, std::size_t n_rows,
                              std::uint64_t seed);

}  // namespace scurry
