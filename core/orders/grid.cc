// Computes the losses of all states of a grid, dropping rows as soon as they are decided.
#include "orders/grid.h"

#include <algorithm>
#include <numeric>

#include "kernels/kernels.h"

namespace scurry {

namespace {

// Adds as unsigned numbers: margins fit in 32 bits, but the sum of what trees can add may not, and wraps round.
std::int32_t plus(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

}  // namespace

// Pairs of a row and a class, in order of rows. With one margin a pair is a row.
struct Grid::Open {
  std::vector<std::uint32_t> pair;  // row * n_margins + class
  std::vector<std::int32_t> margin;
  std::vector<std::uint32_t> row_end;  // several margins: where each row's pairs end
  std::uint32_t wrong = 0;             // rows that were dropped because they are wrong in every remaining state
};

Grid::Grid(const Descent& descent)
    : descent_(descent), width_(descent.n_rows() * descent.n_margins()), start_(descent.start()) {
  for (std::size_t tree = 0; tree < descent.n_trees(); ++tree) {
    if (descent.depth(tree) > 0) tree_.push_back(static_cast<std::int32_t>(tree));
  }
  std::stable_sort(tree_.begin(), tree_.end(), [&](auto a, auto b) { return descent.depth(a) < descent.depth(b); });
  if (!tree_.empty()) std::rotate(tree_.begin(), tree_.end() - 1, tree_.end());
  if (tree_.size() <= kBlockTrees) tree_.insert(tree_.begin(), kBlockTrees + 1 - tree_.size(), -1);

  std::vector<std::uint32_t> change_of_leaf(descent.n_leaves());
  std::vector<std::int32_t> changes(width_);
  for (const std::int32_t tree : tree_) {
    const std::size_t n_levels = tree < 0 ? 1 : descent.depth(tree) + 1;
    n_levels_.push_back(n_levels);
    std::vector<std::int32_t>& moved = moved_.emplace_back(n_levels * width_, 0);
    for (std::size_t level = 1; level < n_levels; ++level) {
      descent.read_step(tree, level, change_of_leaf.data());
      descent.changes(tree, change_of_leaf.data(), 0, descent.n_rows(), changes.data());
      for (std::size_t i = 0; i < width_; ++i) {
        moved[i * n_levels + level] = moved[i * n_levels + level - 1] + changes[i];
      }
    }
  }
  stride_.assign(n_trees(), 1);
  for (std::size_t k = n_trees() - 1; k-- > 0;) stride_[k] = stride_[k + 1] * n_levels_[k + 1];
  if (descent.regression()) {
    square_blocks();
  } else {
    bound_rest();
  }
}

void Grid::bound_rest() {
  lowest_.assign((n_trees() + 1) * width_, 0);
  highest_.assign((n_trees() + 1) * width_, 0);
  for (std::size_t k = n_trees(); k-- > 0;) {
    for (std::size_t i = 0; i < width_; ++i) {
      const auto [low, high] = std::minmax_element(moved(k, i), moved(k, i) + n_levels_[k]);
      lowest_[k * width_ + i] = plus(lowest_[(k + 1) * width_ + i], *low);
      highest_[k * width_ + i] = plus(highest_[(k + 1) * width_ + i], *high);
    }
  }
}

void Grid::square_blocks() {
  const std::size_t k = n_trees() - kBlockTrees;
  for (std::size_t a = 0; a < n_levels_[k]; ++a) {
    for (std::size_t b = 0; b < n_levels_[k + 1]; ++b) {
      for (std::size_t c = 0; c < n_levels_[k + 2]; ++c) {
        double sum = 0;
        for (std::size_t i = 0; i < width_; ++i) {
          const double move = static_cast<double>(moved(k, i)[a]) + moved(k + 1, i)[b] + moved(k + 2, i)[c];
          sum += move * move;
        }
        squares_.push_back(sum);
      }
    }
  }
}

Grid::Open Grid::open_at_start() const {
  Open open;
  open.pair.resize(width_);
  std::iota(open.pair.begin(), open.pair.end(), 0u);
  open.margin = start_;
  if (descent_.n_margins() == 1) return open;
  for (std::size_t row = 1; row <= descent_.n_rows(); ++row) {
    open.row_end.push_back(static_cast<std::uint32_t>(row * descent_.n_margins()));
  }
  return open;
}

Grid::Open Grid::after(const Open& open, std::size_t k, std::size_t level) const {
  Open next;
  next.wrong = open.wrong;
  next.pair.reserve(open.pair.size());
  next.margin.reserve(open.pair.size());
  if (descent_.regression()) {
    next.pair = open.pair;
    for (std::size_t i = 0; i < open.pair.size(); ++i) next.margin.push_back(open.margin[i] + moved(k, i)[level]);
    return next;
  }
  const std::int32_t* lowest = &lowest_[(k + 1) * width_];
  const std::int32_t* highest = &highest_[(k + 1) * width_];
  const std::size_t n_rows = open.row_end.empty() ? open.pair.size() : open.row_end.size();
  std::size_t i = 0;
  for (std::size_t row = 0; row < n_rows; ++row) {
    const std::size_t end = open.row_end.empty() ? row + 1 : open.row_end[row], before = next.pair.size();
    bool lost = false;
    for (; i < end; ++i) {
      const std::uint32_t pair = open.pair[i];
      const std::int32_t margin = open.margin[i] + moved(k, pair)[level];
      lost |= plus(margin, highest[pair]) <= 0;
      if (plus(margin, lowest[pair]) > 0) continue;
      next.pair.push_back(pair);
      next.margin.push_back(margin);
    }
    if (lost) {
      ++next.wrong;
      next.pair.resize(before);
      next.margin.resize(before);
    } else if (next.pair.size() > before && !open.row_end.empty()) {
      next.row_end.push_back(static_cast<std::uint32_t>(next.pair.size()));
    }
  }
  return next;
}

template <class Loss>
void Grid::losses(std::span<const std::size_t> levels, Loss* out) const {
  Open open = open_at_start();
  for (std::size_t k = 0; k < levels.size(); ++k) open = after(open, k, levels[k]);
  descend(open, levels.size(), out);
}

template <class Loss>
void Grid::descend(const Open& open, std::size_t k, Loss* out) const {
  if (k + kBlockTrees < n_trees()) {
    for (std::size_t level = 0; level < n_levels_[k]; ++level) {
      descend(after(open, k, level), k + 1, out + level * stride_[k]);
    }
  } else if constexpr (std::is_same_v<Loss, double>) {
    sum_squares(open, out);
  } else {
    count(open, out);
  }
}

void Grid::sum_squares(const Open& open, double* out) const {
  const std::size_t first = n_trees() - kBlockTrees;
  double squares = 0;
  for (const std::int32_t margin : open.margin) squares += static_cast<double>(margin) * margin;
  std::vector<double> products[kBlockTrees];  // [tree][level] of the residuals and the tree's changes
  for (std::size_t k = 0; k < kBlockTrees; ++k) {
    for (std::size_t level = 0; level < n_levels_[first + k]; ++level) {
      double sum = 0;
      for (std::size_t i = 0; i < width_; ++i) sum += static_cast<double>(open.margin[i]) * moved(first + k, i)[level];
      products[k].push_back(2 * sum);
    }
  }
  const double* of_changes = squares_.data();
  for (const double a : products[0]) {
    for (const double b : products[1]) {
      for (const double c : products[2]) *out++ = squares + a + b + c + *of_changes++;
    }
  }
}

void Grid::count(const Open& open, std::uint32_t* out) const {
  const std::size_t n = open.pair.size();
  std::vector<std::uint32_t> order(n);  // of pairs, by slot
  std::vector<std::size_t> slots;
  std::iota(order.begin(), order.end(), 0u);
  if (open.row_end.empty()) {
    slots.push_back(n);
  } else {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> rows;  // rivals, first pair
    std::uint32_t begin = 0;
    for (const std::uint32_t end : open.row_end) {
      rows.emplace_back(end - begin, begin);
      begin = end;
    }
    std::stable_sort(rows.begin(), rows.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    order.clear();
    do {
      const auto slot = static_cast<std::uint32_t>(slots.size());
      for (std::size_t i = 0; i < rows.size() && rows[i].first > slot; ++i) order.push_back(rows[i].second + slot);
      slots.push_back(order.size());
    } while (order.size() < n);
  }
  const std::size_t first = n_trees() - kBlockTrees;
  std::vector<std::int32_t> moves[kBlockTrees], margin(n);
  for (std::size_t i = 0; i < n; ++i) margin[i] = open.margin[order[i]];
  for (std::size_t k = 0; k < kBlockTrees; ++k) {
    const std::size_t n_levels = n_levels_[first + k];
    moves[k].resize(n_levels * n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::int32_t* move = moved(first + k, open.pair[order[i]]);
      const std::int32_t sign = k + 1 < kBlockTrees ? 1 : -1;
      for (std::size_t level = 0; level < n_levels; ++level) moves[k][level * n + i] = sign * move[level];
    }
  }
  const StateBlock block{{moves[0].data(), moves[1].data(), moves[2].data()},
                         {n_levels_[first], n_levels_[first + 1], n_levels_[first + 2]},
                         margin.data(),
                         slots,
                         open.wrong};
  std::vector<std::int32_t> sum(slots.back()), least(slots.front());
  kernels().states.count_wrong(block, sum.data(), least.data(), out);
}

template void Grid::losses<std::uint32_t>(std::span<const std::size_t>, std::uint32_t*) const;
template void Grid::losses<double>(std::span<const std::size_t>, double*) const;

}  // namespace scurry
