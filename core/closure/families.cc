// Sums, per family of nodes, the costs of the items whose buyers all belong to it.
#include "closure/families.h"

#include <algorithm>
#include <bit>

namespace scurry {

std::vector<std::int64_t> family_savings(const ItemsView& items, std::span<const std::uint8_t> kept,
                                         std::span<const std::uint64_t> goes_with, std::size_t n_families) {
  const std::size_t n_words = (n_families + 63) / 64;
  std::vector<std::int64_t> saved(n_families);
  std::vector<std::uint64_t> common(n_words);
  for (std::size_t item = 0; item < items.cost.size(); ++item) {
    bool is_bought = false;
    std::fill(common.begin(), common.end(), ~std::uint64_t{0});
    for (std::int64_t a = items.offset[item]; a < items.offset[item + 1]; ++a) {
      const std::size_t buyer = static_cast<std::size_t>(items.node[a]);
      if (!kept[buyer]) continue;
      is_bought = true;
      for (std::size_t word = 0; word < n_words; ++word) common[word] &= goes_with[buyer * n_words + word];
    }
    if (!is_bought) continue;
    for (std::size_t word = 0; word < n_words; ++word) {
      for (std::uint64_t rest = common[word]; rest != 0; rest &= rest - 1) {
        saved[64 * word + static_cast<std::size_t>(std::countr_zero(rest))] += items.cost[item];
      }
    }
  }
  return saved;
}

}  // namespace scurry
