// What the leaves of sliced trees add up to: the model's own sums, and a few sums of small integers.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/sliced.h"

namespace scurry {
namespace {

// Appends the values of a tree's leaves, or word w of all leaves, then word w + 1 of all leaves.
template <class Real, class ValueOf>
void append_leaves(const std::uint32_t* payloads, ValueOf value_of, AlignedVector<Real>& out) {
  constexpr std::size_t kWords = sizeof(Real) / sizeof(std::uint16_t);
  Real values[kMaxSlicedLeaves];
  for (std::size_t leaf = 0; leaf < kMaxSlicedLeaves; ++leaf) values[leaf] = value_of(payloads[leaf]);
  if (kernels().sliced.leaves_are_words) {
    std::uint16_t words[kMaxSlicedLeaves][kWords], by_word[kWords][kMaxSlicedLeaves];
    std::memcpy(words, values, sizeof values);
    for (std::size_t leaf = 0; leaf < kMaxSlicedLeaves; ++leaf) {
      for (std::size_t w = 0; w < kWords; ++w) by_word[w][leaf] = words[leaf][w];
    }
    std::memcpy(values, by_word, sizeof values);
  }
  out.insert(out.end(), std::begin(values), std::end(values));
}

}  // namespace

std::optional<SlicedSums> SlicedSums::make(const Sliced& sliced, const std::vector<Tree>& trees,
                                           const NodeValues& values, const ValueOf& value_of,
                                           bool has_numbers) {
  if (values.are_vectors()) return std::nullopt;
  std::optional<SlicedSums> made{SlicedSums()};
  for (std::size_t output = 0; output < values.n_outputs(); ++output) {
    std::vector<SlicedTree> of_output;
    for (std::size_t t = 0; t < trees.size(); ++t) {
      if (static_cast<std::size_t>(std::max(trees[t].output, 0)) != output) continue;
      of_output.push_back(sliced.trees()[t]);
      made->index_.push_back(t);
      if (values.in_float32()) {
        append_leaves(
            sliced.payloads(t), [&](auto payload) { return std::bit_cast<float>(value_of(t, payload)); }, made->floats_);
      } else {
        append_leaves(
            sliced.payloads(t), [&](auto payload) { return *values.at(value_of(t, payload)); }, made->doubles_);
      }
    }
    // The trees that are left share too little.
    made->runs_.push_back(sliced.run_of(std::move(of_output), !has_numbers));
  }
  return made;
}

template <class Real>
void SlicedSums::add(const Sliced& sliced, const Block& block, Real* sums,
                     std::span<const std::uint8_t* const> numbers) const {
  thread_local std::vector<const std::uint8_t*> of_trees;
  of_trees.clear();
  if (!numbers.empty()) {
    for (const std::size_t tree : index_) of_trees.push_back(numbers[tree]);
  }
  std::size_t first = 0;
  for (const SlicedRun& run : runs_) {
    const std::uint8_t* const* of_output = of_trees.empty() ? nullptr : of_trees.data() + first;
    const SlicedProgram program = run.complete(sliced.program());
    if constexpr (std::is_same_v<Real, float>) {
      kernels().sliced.add_floats(run.trees(), program, block.ranks, block.n, floats_.data() + first * kMaxSlicedLeaves,
                                  sums, of_output, run.slices());
    } else {
      kernels().sliced.add_doubles(run.trees(), program, block.ranks, block.n,
                                   doubles_.data() + first * kMaxSlicedLeaves, sums, of_output, run.slices());
    }
    first += run.trees().size();
    sums += block.n;
  }
}

template void SlicedSums::add(const Sliced&, const Block&, float*, std::span<const std::uint8_t* const>) const;
template void SlicedSums::add(const Sliced&, const Block&, double*, std::span<const std::uint8_t* const>) const;

bool SlicedLanes::append(const Sliced& sliced, std::span<const Tree> trees, std::size_t n_lanes,
                         const LaneOf& lane_of, bool has_numbers) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int16_t>::max();
  const bool by_leaf = kernels().sliced_lanes.by_leaf;
  const std::size_t width = by_leaf ? (n_lanes + kLaneGroup - 1) / kLaneGroup * kLaneGroup : n_lanes;
  parts_.push_back({pieces_.size(), 0, n_lanes});
  std::vector<std::int64_t> largest(n_lanes), of_tree(n_lanes);  // what kLaneTrees trees may add up to, and this one
  std::vector<SlicedTree> of_piece;
  const auto end_piece = [&] { pieces_.back().run = sliced.run_of(std::exchange(of_piece, {}), !has_numbers); };
  for (std::size_t t = 0; t < trees.size(); ++t) {
    const std::uint32_t* payloads = sliced.payloads(trees[t].index);
    const std::size_t first = values_.size();
    values_.resize(first + width * kMaxSlicedLeaves);
    for (std::size_t lane = 0; lane < n_lanes; ++lane) {
      of_tree[lane] = 0;
      for (std::size_t leaf = 0; leaf < kMaxSlicedLeaves; ++leaf) {
        const std::int32_t value = lane_of(t, payloads[leaf], lane);
        of_tree[lane] = std::max(of_tree[lane], std::abs(std::int64_t{value}));
        if (of_tree[lane] > kMost) return false;
        values_[first + (by_leaf ? leaf * width + lane : lane * kMaxSlicedLeaves + leaf)] =
            static_cast<std::int16_t>(value);
      }
    }
    bool fits = true;
    for (std::size_t lane = 0; lane < n_lanes; ++lane) fits &= largest[lane] + of_tree[lane] <= kMost;
    Part& part = parts_.back();
    const bool is_whole = part.n_pieces > 0 && of_piece.size() % kLaneTrees == 0;
    if (part.n_pieces == 0 || (!fits && !is_whole)) {
      if (part.n_pieces > 0) end_piece();
      pieces_.push_back({{}, first});
      ++part.n_pieces;
    }
    if (!fits || is_whole) std::fill(largest.begin(), largest.end(), 0);
    for (std::size_t lane = 0; lane < n_lanes; ++lane) largest[lane] += of_tree[lane];
    of_piece.push_back(sliced.trees()[trees[t].index]);
  }
  if (!of_piece.empty()) end_piece();
  return true;
}

void SlicedLanes::add(std::size_t part, const Sliced& sliced, const Block& block, std::int32_t* sums,
                      std::size_t apart, const std::uint8_t* const* numbers) const {
  const Part& of = parts_[part];
  for (const Piece& piece : std::span(pieces_).subspan(of.first_piece, of.n_pieces)) {
    kernels().sliced_lanes.add(piece.run.trees(), piece.run.complete(sliced.program()), block.ranks, block.n,
                               values_.data() + piece.first_value, of.n_lanes, sums, apart, numbers,
                               piece.run.slices());
    if (numbers != nullptr) numbers += piece.run.trees().size();
  }
}

std::size_t SlicedLanes::bytes() const {
  std::size_t bytes = values_.size() * sizeof(std::int16_t);
  for (const Piece& piece : pieces_) bytes += piece.run.bytes();
  return bytes;
}

}  // namespace scurry
