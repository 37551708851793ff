// Lowers trees to tests of ranks and selections of bits.
#include "runtime/sliced.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace scurry {
namespace {

// Ranking a value takes about as long as walking a tree.
constexpr std::size_t kMaxColumnsPerTree = 1, kMaxColumns = 4096;
// Values are slices that are not placed yet: none is written twice.
using Value = std::uint16_t;
constexpr Value kZeros = 0, kOnes = 1, kFirstTest = 2, kAny = 0xFFFF;

std::uint32_t slice_bytes() { return static_cast<std::uint32_t>(kernels().sliced.slice_chunks * sizeof(std::uint64_t)); }

}  // namespace

// Lowers one tree after the other.
template <class Node>
class Sliced::Lowering {
 public:
  Lowering(std::span<const Node> nodes, const Trees& trees, const Columns& columns, Sliced& out)
      : nodes_(nodes), trees_(trees), columns_(columns), out_(out) {}

  // Returns whether all trees are small enough.
  bool read() {
    for (const Tree& tree : trees_.trees()) {
      if (!read(tree)) return false;
    }
    return true;
  }

  // Makes the heaps of all trees, once ranks are known, unless some tree has too many levels or tests codes.
  void make_heaps() {
    if (n_set_tests_ > 0) return;
    std::vector<RowTests> heaps(trees_.trees().size());
    for (std::size_t t = 0; t < heaps.size(); ++t) {
      if (!place_tests(out_.trees_[t], trees_.trees()[t].first, 0, heaps[t])) return;
    }
    out_.heaps_ = std::move(heaps);
  }

  std::vector<Question> questions;

 private:
  using Planes = std::array<Value, kLargePlanes>;
  struct Choice {
    Value chooser, no, yes, out;
  };

  bool read(const Tree& tree) {
    root_ = tree.first;
    if (is_top()) {
      find_end_of_top(tree);
    } else {
      if (tree.depth >= max_leaves()) return false;  // what follows would recurse too deeply
      end_ = tree.index + 1 < trees_.trees().size() ? trees_.trees()[tree.index + 1].first : nodes_.size();
    }
    if (!count_leaves()) return false;
    if (out_.extent_ != Extent::kSmall) first_kept_ = root_;
    slice_of_node_.resize(end_ - first_kept_);
    SlicedTree lowered{};
    lowered.first_test = static_cast<std::uint32_t>(questions.size() - n_set_tests_);
    lowered.first_set_test = static_cast<std::uint32_t>(n_set_tests_);
    lowered.first_select = static_cast<std::uint32_t>(out_.selects_.size());
    // Tests stand in the order in which their answers are read, which are then long in memory; those of sets come last.
    asking_.clear();
    order_tests(tree.first);
    const auto is_set_test = [&](std::size_t at) {
      const Question asked = question_of(at);
      return asked.is_set && RankedColumns::fits_codes(asked, trees_.category_bits());
    };
    auto first_set = asking_.end();
    if (columns_.has_categories()) {
      first_set = std::stable_partition(asking_.begin(), asking_.end(), [&](std::size_t at) { return !is_set_test(at); });
    }
    lowered.n_tests = static_cast<std::uint16_t>(first_set - asking_.begin());
    lowered.n_set_tests = static_cast<std::uint16_t>(asking_.end() - first_set);
    n_set_tests_ += lowered.n_set_tests;
    n_values_ = kFirstTest;
    for (const std::size_t at : asking_) {
      questions.push_back(question_of(at));
      slice_of_node_[at - first_kept_] = static_cast<std::uint8_t>(n_values_++);
    }
    first_chosen_ = n_values_;
    choices_.clear();
    const std::size_t first_leaf = out_.payloads_.size();
    out_.payloads_.resize(first_leaf + out_.n_numbers());
    const Planes planes = select(tree.first, 0, out_.n_numbers(), out_.payloads_.data() + first_leaf);
    place_choices(planes, lowered);
    lowered.n_selects = static_cast<std::uint16_t>(out_.selects_.size() - lowered.first_select);
    out_.trees_.push_back(lowered);
    return true;
  }

  // Trees lie level by level: finds where the last level of the top begins and ends. Its nodes are the leaves.
  void find_end_of_top(const Tree& tree) {
    first_below_ = tree.first;
    end_ = tree.first + 1;
    for (std::uint32_t level = 0; level < kTopLevels && first_below_ < end_; ++level) {
      const std::size_t begin = first_below_;
      first_below_ = end_;
      for (std::size_t at = begin; at < first_below_; ++at) end_ += nodes_[at].left != 0 ? 2 : 0;
    }
  }

  bool is_top() const { return out_.extent_ == Extent::kTops; }
  std::size_t max_leaves() const { return out_.is_large() ? kMaxLargeLeaves : kMaxSlicedLeaves; }
  bool is_leaf(std::size_t at) const { return nodes_[at].left == 0 || (is_top() && at >= first_below_); }
  std::uint32_t payload_of(std::size_t leaf) const {
    return is_top() ? static_cast<std::uint32_t>(leaf - root_) : nodes_[leaf].key;
  }
  // A split of the heap above a leaf, which sends all rows to the left.
  bool is_filler(std::size_t at) const { return nodes_[at].column == columns_.pad(); }
  // The children in the order of their leaves' numbers: those of the rows whose bit is not set come first.
  std::size_t child(std::size_t at, bool is_set) const {
    return at + nodes_[at].left + (is_set != says_left_ ? 1 : 0);
  }
  std::size_t below_filler(std::size_t at) const {
    while (!is_leaf(at) && is_filler(at)) at += nodes_[at].left;
    return at;
  }

  // Counts the leaves below every node of a tree, a leaf below a filler once. Returns whether there are few enough.
  bool count_leaves() {
    n_leaves_.resize(end_ - root_);
    for (std::size_t at = end_; at-- > root_;) {
      const std::size_t left = at + nodes_[at].left;
      const std::size_t n = is_leaf(at)     ? 1
                            : is_filler(at) ? n_leaves(left)
                                            : std::size_t{n_leaves(left)} + n_leaves(left + 1);
      if (n > max_leaves()) return false;
      n_leaves_[at - root_] = static_cast<std::uint8_t>(n);
    }
    return true;
  }

  std::uint8_t n_leaves(std::size_t at) const { return n_leaves_[at - root_]; }

  // Which child is evaluated first: the larger one, so that few slices wait for the other one.
  bool set_first(std::size_t at) const {
    return n_leaves(child(at, true)) > n_leaves(child(at, false));
  }

  // Appends the nodes that ask something, in the order in which select() reads their answers.
  void order_tests(std::size_t at) {
    at = below_filler(at);
    if (is_leaf(at)) return;
    const bool first = set_first(at);
    order_tests(child(at, first));
    order_tests(child(at, !first));
    asking_.push_back(at);
  }

  // Puts the tests below a node where they belong in the heap. Tests that are not there decide nothing, because all
  // leaves below them are the same one. Returns whether there is space for all.
  bool place_tests(const SlicedTree& tree, std::size_t at, std::size_t place, RowTests& heap) const {
    at = below_filler(at);
    if (is_leaf(at)) return true;
    if (place >= kMaxSlicedLeaves - 1) return false;
    const RankTest& test = out_.tests_[tree.first_test + slice_of_node_[at - first_kept_] - kFirstTest];
    heap.column[place] = static_cast<std::uint8_t>(test.column);
    heap.least[place] = test.least;
    return place_tests(tree, child(at, false), 2 * place + 1, heap) &&
           place_tests(tree, child(at, true), 2 * place + 2, heap);
  }

  Question question_of(std::size_t at) const {
    const Node& node = nodes_[at];
    Question asked{node.column};
    if (node.column > columns_.pad()) {
      asked.is_set = true;
      asked.set = trees_.category_tests()[node.key];
    } else {
      asked.key = node.key;
      asked.missing_left = !trees_.marks().empty() && ((trees_.marks()[at / 32] >> (at % 32)) & 1u) != 0;
    }
    return asked;
  }

  // Makes the bits of the number of the leaf that rows reach below a node. The leaves there get numbers in [low, high).
  // The number from which on they belong to the rows whose bit is set is as round as possible: then few bits of the two
  // halves have to be selected. A leaf with room for several numbers has all of those that share their high bits, and
  // its low bits are never selected.
  Planes select(std::size_t at, std::size_t low, std::size_t high, std::uint32_t* payloads) {
    at = below_filler(at);
    Planes made{};
    if (is_leaf(at)) {
      std::size_t n_open = 0;
      while (low % (2u << n_open) == 0 && low + (2u << n_open) <= high) ++n_open;
      std::fill_n(payloads + low, std::size_t{1} << n_open, payload_of(at));
      for (std::size_t i = 0; i < kLargePlanes; ++i) made[i] = i < n_open ? kAny : (low >> i) & 1 ? kOnes : kZeros;
      return made;
    }
    const std::size_t first = low + n_leaves(child(at, false)), last = high - n_leaves(child(at, true));
    std::size_t step = out_.n_numbers();
    while (last / step * step < first) step /= 2;
    const std::size_t middle = last / step * step;
    Planes no, yes;
    if (set_first(at)) {
      yes = select(child(at, true), middle, high, payloads);
      no = select(child(at, false), low, middle, payloads);
    } else {
      no = select(child(at, false), low, middle, payloads);
      yes = select(child(at, true), middle, high, payloads);
    }
    const Value chooser = slice_of_node_[at - first_kept_];
    for (std::size_t i = 0; i < kLargePlanes; ++i) {
      if (no[i] == yes[i] || yes[i] == kAny) {
        made[i] = no[i];
      } else if (no[i] == kAny) {
        made[i] = yes[i];
      } else if (no[i] == kZeros && yes[i] == kOnes) {
        made[i] = chooser;
      } else {
        made[i] = n_values_++;
        choices_.push_back({chooser, no[i], yes[i], made[i]});
      }
    }
    return made;
  }

  // Gives every value a slice, and writes the choices in the order in which they are made. A choice waits for what it
  // chooses from to be stored and loaded again, which takes several times as long as the choice itself. So those that wait
  // for nothing are made first, then those that wait for these, unless there are too few slices for that; for the order of
  // select(), in which a choice follows its parts at once, there are always enough.
  void place_choices(const Planes& planes, SlicedTree& lowered) {
    std::vector<std::uint16_t> n_waits(n_values_, 0);
    for (const Choice& made : choices_) {
      n_waits[made.out] = static_cast<std::uint16_t>(1 + std::max(n_waits[made.no], n_waits[made.yes]));
    }
    std::vector<Choice> by_waits = choices_;
    std::ranges::stable_sort(by_waits, {}, [&](const Choice& made) { return n_waits[made.out]; });
    if (!place_in_order(by_waits, planes, lowered)) place_in_order(choices_, planes, lowered);
  }

  // Returns whether there are enough slices. Those of tests are not used again: a test may be chosen from as well.
  bool place_in_order(std::span<const Choice> choices, const Planes& planes, SlicedTree& lowered) {
    std::vector<std::size_t> last_use(n_values_, 0);
    for (std::size_t i = 0; i < choices.size(); ++i) last_use[choices[i].no] = last_use[choices[i].yes] = i;
    for (const Value plane : planes) {
      if (plane != kAny) last_use[plane] = choices.size();
    }
    std::vector<std::uint8_t> slice(n_values_), free;
    std::iota(slice.begin(), slice.begin() + first_chosen_, std::uint8_t{0});
    std::size_t n_slices = first_chosen_;
    const std::size_t first_select = out_.selects_.size();
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Choice& made = choices[i];
      for (const Value read : {made.no, made.yes}) {
        if (read >= first_chosen_ && last_use[read] == i) free.push_back(slice[read]);
      }
      if (free.empty()) {
        if (n_slices == kMaxSlices) {
          out_.selects_.resize(first_select);
          return false;
        }
        free.push_back(static_cast<std::uint8_t>(n_slices++));
      }
      slice[made.out] = free.back();
      free.pop_back();
      const auto byte_of = [&](Value value) { return slice[value] * slice_bytes(); };
      out_.selects_.push_back({byte_of(made.chooser), byte_of(made.no), byte_of(made.yes), byte_of(made.out)});
    }
    for (std::size_t i = 0; i < kLargePlanes; ++i) {
      lowered.planes[i] = slice[planes[i] == kAny ? kZeros : planes[i]] * slice_bytes();
    }
    return true;
  }

  std::span<const Node> nodes_;
  const Trees& trees_;
  const Columns& columns_;
  Sliced& out_;
  const bool says_left_ = kernels().sliced.says_left;
  std::size_t root_ = 0, first_below_ = 0, end_ = 0;  // of the tree that is read
  std::vector<std::size_t> asking_;  // nodes of this tree that ask something
  std::vector<Choice> choices_;      // of this tree, each after those it chooses from
  std::vector<std::uint8_t> slice_of_node_;  // by node of all small trees, which heaps are made of, or of this one
  std::size_t first_kept_ = 0;
  std::vector<std::uint8_t> n_leaves_;  // by node of this tree
  std::size_t n_set_tests_ = 0;
  Value n_values_ = 0, first_chosen_ = 0;  // of this tree
};

std::optional<Sliced> Sliced::find(const Trees& trees, const Columns& columns) {
  return find(trees, columns, std::min(kMaxColumns, kMaxColumnsPerTree * trees.trees().size()), Extent::kSmall);
}

std::optional<Sliced> Sliced::find_large(const Trees& trees, const Columns& columns) {
  if (columns.has_categories()) return std::nullopt;
  return find(trees, columns, kMaxColumns, Extent::kLarge);
}

std::optional<Sliced> Sliced::find_tops(const Trees& trees, const Columns& columns) {
  if (columns.has_categories()) return std::nullopt;
  return find(trees, columns, kMaxColumns, Extent::kTops);
}

std::optional<Sliced> Sliced::find(const Trees& trees, const Columns& columns, std::size_t max_columns,
                                   Extent extent) {
  std::optional<Sliced> found(Sliced{extent});
  const auto lower = [&]<class Node>(std::span<const Node> nodes) {
    Lowering<Node> lowering(nodes, trees, columns, *found);
    if (!lowering.read()) return false;
    found->ranks_ = RankedColumns::make(lowering.questions, trees.category_bits(), max_columns, found->tests_,
                                        &found->set_tests_);
    if (!found->ranks_) return false;
    if (extent == Extent::kLarge) found->run_ = found->run_of(found->trees_);
    if (extent != Extent::kSmall) {
      const std::size_t worth = extent == Extent::kTops ? kernels().sliced.ranking_of_top : kernels().sliced.ranking_of_large;
      return found->ranks_->work() <= worth * trees.trees().size();
    }
    const std::size_t max_row_ranks = kernels().sliced.max_row_ranks;
    if (max_row_ranks > 0 && found->ranks_->size() <= max_row_ranks) lowering.make_heaps();
    return true;
  };
  if (!(trees.is_wide() ? lower(trees.wide()) : lower(trees.narrow()))) return std::nullopt;
  return found;
}

std::size_t Sliced::bytes() const {
  return trees_.size() * sizeof(SlicedTree) + tests_.size() * sizeof(RankTest) + run_.bytes() +
         set_tests_.size() * sizeof(SetTest) + selects_.size() * sizeof(Select) +
         payloads_.size() * sizeof(std::uint32_t) + heaps_.size() * sizeof(RowTests) + ranks_->bytes();
}

SlicedRun::SlicedRun(std::vector<SlicedTree> trees, const SlicedProgram& program, std::span<const RankTest> tests)
    : trees_(std::move(trees)) {
  if (tests.empty()) return;
  // How often tests must be made again for sharing to take less time; and how many answers stay in the cache of a core.
  constexpr double kWorthSharing = 1.15;
  constexpr std::size_t kMostShared = 4096;
  const auto is_before = [](const RankTest& a, const RankTest& b) {
    return std::pair(a.column, a.least) < std::pair(b.column, b.least);
  };
  const auto is_same = [](const RankTest& a, const RankTest& b) { return a.column == b.column && a.least == b.least; };
  std::vector<RankTest> shared;
  for (const SlicedTree& tree : trees_) {
    const std::span<const RankTest> of_tree = tests.subspan(tree.first_test, tree.n_tests);
    shared.insert(shared.end(), of_tree.begin(), of_tree.end());
  }
  const auto n_tests = static_cast<double>(shared.size());
  std::sort(shared.begin(), shared.end(), is_before);
  shared.erase(std::unique(shared.begin(), shared.end(), is_same), shared.end());
  if (static_cast<double>(shared.size()) * kWorthSharing > n_tests || shared.size() > kMostShared) return;
  std::vector<std::uint32_t> slice_of_test;  // of a tree, where they begin
  for (SlicedTree& tree : trees_) {
    slice_of_test.clear();
    for (const RankTest& test : tests.subspan(tree.first_test, tree.n_tests)) {
      const auto place = std::lower_bound(shared.begin(), shared.end(), test, is_before) - shared.begin();
      slice_of_test.push_back(static_cast<std::uint32_t>(kMaxSlices + static_cast<std::size_t>(place)) * slice_bytes());
    }
    const auto move = [&](std::uint32_t& slice) {
      const std::uint32_t test = slice / slice_bytes() - kFirstTest;  // very large for the first two
      if (test < tree.n_tests) slice = slice_of_test[test];
    };
    const Select* ways = program.selects + tree.first_select;
    tree.first_select = static_cast<std::uint32_t>(selects_.size());
    selects_.insert(selects_.end(), ways, ways + tree.n_selects);
    for (Select& way : std::span(selects_).subspan(tree.first_select)) {
      for (std::uint32_t* slice : {&way.chooser, &way.no, &way.yes}) move(*slice);
    }
    for (std::uint32_t& plane : tree.planes) move(plane);
  }
  shared_ = std::move(shared);
}

std::uint64_t* SlicedRun::slices() const {
  thread_local AlignedVector<std::uint64_t> slices;
  const std::size_t n_words = kernels().sliced.slice_chunks, size = (kMaxSlices + shared_.size()) * n_words;
  if (slices.size() < size) {
    slices.resize(size);
    std::fill_n(slices.data(), n_words, std::uint64_t{0});
    std::fill_n(slices.data() + n_words, n_words, ~std::uint64_t{0});
  }
  return slices.data();
}

void Sliced::walk(std::size_t tree, const Block& block, std::uint32_t* payload, const std::uint32_t* others) const {
  const std::uint32_t* of_leaf = others == nullptr ? payloads(tree) : others + tree * n_numbers();
  const auto walk = is_large() ? kernels().sliced.walk_large : kernels().sliced.walk;
  walk(trees_[tree], program(), block.ranks, block.n, of_leaf, payload);
}

void Sliced::walk_row(const std::uint32_t* keys, std::uint32_t* payload, const std::uint32_t* others) const {
  alignas(64) std::uint8_t ranks[kMaxRowRanks] = {};
  ranks_->rank_row(keys, ranks);
  kernels().sliced.walk_row(heaps_, ranks, ranks_->size(), others == nullptr ? payloads_.data() : others, payload);
}

}  // namespace scurry
