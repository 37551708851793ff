#include "orders_rivals.h"

#include <algorithm>
#include <limits>

#include "vectorised.h"

namespace scurry {

namespace {

constexpr std::size_t kWidth = 8;
using Lanes [[gnu::vector_size(32), gnu::may_alias]] = std::int32_t;
using Words [[gnu::vector_size(32), gnu::may_alias]] = std::int64_t;

struct RowsInTree {
  const std::uint32_t *leaf, *change_of_leaf;
  const std::int32_t *changes, *own;
  std::size_t n_lanes;

  [[gnu::always_inline]] const std::int32_t* change(std::size_t row) const {
    return changes + change_of_leaf[leaf[row]] * n_lanes;
  }
};

// A bound beyond all sums is as good as the least or most of them.
[[gnu::always_inline]] inline std::int32_t clamped(std::int64_t bound) {
  using Limits = std::numeric_limits<std::int32_t>;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(bound, Limits::min(), Limits::max()));
}

// Adds changes to the sums of all rows, and lists those that are open afterwards.
struct TakeStep {
  [[gnu::always_inline]] static inline void run(const RowsInTree* rows, std::size_t n_rows, std::int32_t* sums,
                                                const std::int64_t* fall, const std::int64_t* rise, std::uint32_t* open,
                                                std::size_t* n_open, std::size_t* surely_wrong) {
    const std::size_t n_lanes = rows->n_lanes;
    const Lanes first_index{0, 1, 2, 3, 4, 5, 6, 7};
    *n_open = *surely_wrong = 0;
    for (std::size_t row = 0; row < n_rows; ++row, sums += n_lanes) {
      const std::int32_t* change = rows->change(row);
      const std::int32_t y = rows->own[row], own = sums[y] + change[y];
      const std::int32_t nearest = clamped(own - fall[row]), furthest = clamped(own + rise[row]);
      Lanes near{}, beyond{}, index = first_index;
      for (std::size_t at = 0; at < n_lanes; at += kWidth, index += static_cast<std::int32_t>(kWidth)) {
        Lanes& sum = *reinterpret_cast<Lanes*>(sums + at);
        sum += *reinterpret_cast<const Lanes*>(change + at);
        near |= (sum > nearest) & (index != y);
        beyond |= sum > furthest;
      }
      const auto near_words = reinterpret_cast<Words>(near), beyond_words = reinterpret_cast<Words>(beyond);
      const bool lost = (beyond_words[0] | beyond_words[1] | beyond_words[2] | beyond_words[3]) != 0;
      const bool unsafe = (near_words[0] | near_words[1] | near_words[2] | near_words[3]) != 0;
      open[*n_open] = static_cast<std::uint32_t>(row);
      *n_open += unsafe && !lost;
      *surely_wrong += lost;
    }
  }
};

struct CountWrong {
  [[gnu::always_inline]] static inline void run(const RowsInTree* rows, const std::uint32_t* open, std::size_t n_open,
                                                const std::int32_t* sums, std::size_t* wrong) {
    const std::size_t n_lanes = rows->n_lanes;
    for (std::size_t i = 0; i < n_open; ++i) {
      const std::int32_t *change = rows->change(open[i]), *sum = sums + open[i] * n_lanes;
      const std::int32_t y = rows->own[open[i]], own = sum[y] + change[y];
      Lanes above{};
      for (std::size_t at = 0; at < n_lanes; at += kWidth) {
        above |= *reinterpret_cast<const Lanes*>(sum + at) + *reinterpret_cast<const Lanes*>(change + at) > own;
      }
      const auto words = reinterpret_cast<Words>(above);
      *wrong += (words[0] | words[1] | words[2] | words[3]) != 0;
    }
  }
};

}  // namespace

RivalRows::RivalRows(const Descent& descent, bool down)
    : descent_(descent),
      factor_(down ? 2 : -2),
      n_lanes_((descent.n_margins() + kWidth - 1) / kWidth * kWidth),
      changes_((descent.n_changes() + 1) * n_lanes_, 0),
      open_(descent.n_rows() + 1) {
  for (std::size_t y = 0; y < descent.n_margins(); ++y) {
    own_.insert(own_.end(), descent.class_begin(y + 1) - descent.class_begin(y), static_cast<std::int32_t>(y));
  }
  for (std::size_t at = 0; at < descent.n_changes(); ++at) {
    const std::int32_t* change = descent.change(static_cast<std::uint32_t>(at));
    for (std::size_t c = 0; c < descent.n_margins(); ++c) changes_[at * n_lanes_ + c] = factor_ * change[c];
  }
  start(down);
  bound_changes();
  // A step that changes nothing sorts the rows out.
  const std::vector<std::uint32_t> none(descent.n_leaves(), static_cast<std::uint32_t>(descent.n_changes()));
  step(0, none.data());
}

void RivalRows::start(bool down) {
  const std::size_t n_classes = descent_.n_margins(), n_rows = descent_.n_rows();
  sums_.assign(n_rows * n_lanes_, std::numeric_limits<std::int32_t>::min());
  const std::vector<std::int32_t> margins = descent_.start();
  for (std::size_t row = 0; row < n_rows; ++row) {
    for (std::size_t c = 0; c < n_classes; ++c) sums_[row * n_lanes_ + c] = -margins[row * n_classes + c];
    sums_[row * n_lanes_ + static_cast<std::size_t>(own_[row])] = 0;
  }
  if (down) return;
  std::vector<std::uint32_t> change_of_leaf(descent_.n_leaves());
  std::vector<std::int32_t> way(descent_.n_leaves() * n_classes, 0);  // [leaf][class] what the steps up to it take away
  for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
    const auto [begin, end] = descent_.leaf_range(tree);
    for (std::size_t level = 1; level <= descent_.depth(tree); ++level) {
      descent_.read_step(tree, level, change_of_leaf.data());
      for (std::size_t leaf = begin; leaf < end; ++leaf) {
        const std::int32_t* change = &changes_[change_of_leaf[leaf] * n_lanes_];
        for (std::size_t c = 0; c < n_classes; ++c) way[leaf * n_classes + c] += change[c];
      }
    }
    for (std::size_t row = 0; row < n_rows; ++row) {
      const std::int32_t* of_leaf = &way[descent_.leaves(tree)[row] * n_classes];
      for (std::size_t c = 0; c < n_classes; ++c) sums_[row * n_lanes_ + c] -= of_leaf[c];
    }
  }
}

void RivalRows::bound_changes() {
  const std::size_t n_classes = descent_.n_margins(), n_rows = descent_.n_rows();
  std::vector<std::int32_t> least, most;  // [change] of any class
  for (std::size_t at = 0; at <= descent_.n_changes(); ++at) {
    const auto first = changes_.begin() + static_cast<std::ptrdiff_t>(at * n_lanes_);
    const auto [low, high] = std::minmax_element(first, first + static_cast<std::ptrdiff_t>(n_classes));
    least.push_back(*low);
    most.push_back(*high);
  }
  fall_.assign(n_rows, 0);
  rise_.assign(n_rows, 0);
  std::vector<std::uint32_t> change_of_leaf(descent_.n_leaves());
  for (std::size_t tree = 0; tree < descent_.n_trees(); ++tree) {
    const std::uint32_t* leaf = descent_.leaves(tree);
    for (std::size_t level = 1; level <= descent_.depth(tree); ++level) {
      descent_.read_step(tree, level, change_of_leaf.data());
      for (std::size_t row = 0; row < n_rows; ++row) {
        const std::size_t at = change_of_leaf[leaf[row]];
        const std::int64_t own = changes_[at * n_lanes_ + static_cast<std::size_t>(own_[row])];
        fall_[row] = std::max(fall_[row], most[at] - own);
        rise_[row] = std::max(rise_[row], own - least[at]);
      }
    }
  }
}

void RivalRows::step(std::size_t tree, const std::uint32_t* change_of_leaf) {
  const RowsInTree rows{descent_.leaves(tree), change_of_leaf, changes_.data(), own_.data(), n_lanes_};
  vectorised<TakeStep>(&rows, descent_.n_rows(), sums_.data(), fall_.data(), rise_.data(), open_.data(), &n_open_,
                       &surely_wrong_);
}

std::size_t RivalRows::wrong_after(std::size_t tree, const std::uint32_t* change_of_leaf) const {
  const RowsInTree rows{descent_.leaves(tree), change_of_leaf, changes_.data(), own_.data(), n_lanes_};
  std::size_t wrong = surely_wrong_;
  vectorised<CountWrong>(&rows, open_.data(), n_open_, sums_.data(), &wrong);
  return wrong;
}

}  // namespace scurry
