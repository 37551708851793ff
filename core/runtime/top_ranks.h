// TopRanks: which documents of a query can no longer change its k best, or are surely among them, judged by sums.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/alive_rows.h"

namespace scurry {

// The k best documents of every query: in the order of their own scores, or as a set whose order is estimated.
struct TopK {
  std::size_t k;
  bool as_set;
};

// What documents are compared by at a sentinel.
struct PlaceTest {
  std::size_t lane;                   // of the estimates
  std::optional<std::size_t> spread;  // the lane of the spreads, which are 0 or more
  // How far two documents must be apart, or, with spreads, how far on both sides of its sum a document may be, in units
  // of its spread.
  double limit;
};

// The queries of one block of rows. Documents of a query lie next to each other when the block is loaded.
class TopRanks {
 public:
  // Query q has the rows from offset[q] to offset[q + 1], counted from `first` on.
  void start(const TopK& top, std::span<const std::int64_t> offset, std::size_t first);

  // Sets the bits of the rows that leave, of those without a bit in `removed`. With the sums of a lane, a document
  // leaves if it is more than the limit below the k-th best of those that are still in; in a set it also leaves if it
  // is more than the limit above the next best after those, or if there are no more than k. With spreads, the largest
  // sum that it may have is compared with the least sums of the k best, and its least sum with the largest of others.
  void test(const AliveRows& alive, const PlaceTest& test, const std::uint64_t* removed, std::uint64_t* stopped);

  // Given the score of every document of the block, lowers those that are not among the k best of their query to below
  // those that are. The best are those that left as such, then those that stayed to the end, by their own scores.
  void settle(double* scores) const;

 private:
  enum class Side : std::uint8_t { kStayed, kOut, kIn };

  // The least and the largest sums that documents may have, those of row r at r * apart.
  struct Reach {
    const std::int32_t *least, *largest;
    std::size_t apart;
  };

  void gather(const AliveRows& alive, const Reach& reach, const std::uint64_t* removed);

  TopK top_{};
  std::vector<std::size_t> offset_;
  std::vector<std::uint32_t> query_of_;  // by row of the block
  std::vector<Side> side_;
  std::vector<std::size_t> n_open_;  // places of the k best that are not taken
  AlignedVector<std::int32_t> least_, largest_;  // by row of the block, if spreads tell them
  // Of each query at a sentinel: the same of the documents still in, and their number.
  std::vector<std::int32_t> least_of_, largest_of_;
  std::vector<std::uint32_t> n_in_;
  // Documents of a query whose largest sums are smaller are out, those whose least sums are larger are in.
  std::vector<std::int32_t> out_below_, in_above_;
  std::vector<std::uint64_t> is_in_;  // bits of the rows that leave as one of the best, kChunk to a word
};

}  // namespace scurry
