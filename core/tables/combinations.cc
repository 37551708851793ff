#include "tables/combinations.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "runtime/interrupt.h"

namespace scurry {

namespace {

constexpr std::uint64_t kMix = 0x4906BA494954CB65;     // CatBoost's
constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;  // 2**64 divided by the golden ratio: the place of a key
constexpr std::size_t kBlock = 256;

void check(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

// Offsets rise from 0 to the number of entries.
void check_offsets(const std::vector<std::int64_t>& offset, std::size_t n_parts, std::size_t n_entries) {
  check(offset.size() == n_parts + 1 && offset.front() == 0 && std::ranges::is_sorted(offset) &&
            offset.back() == static_cast<std::int64_t>(n_entries),
        "offsets of combinations must rise from 0 to the number of their entries");
}

}  // namespace

Combinations::Combinations(Parts parts) : parts_(std::move(parts)) {
  const Parts& p = parts_;
  check(!p.code_offset.empty() && !p.element_offset.empty() && !p.output_offset.empty() && !p.key_offset.empty(),
        "combinations need offsets");
  const std::size_t n = p.element_offset.size() - 1;
  check_offsets(p.code_offset, p.code_offset.size() - 1, p.code_hash.size());
  check_offsets(p.element_offset, n, p.column.size());
  check_offsets(p.key_offset, n, p.key.size());
  check(p.output_offset.size() == n + 1 && p.output_offset.front() == 0 && std::ranges::is_sorted(p.output_offset),
        "offsets of outputs must rise from 0");
  check(p.kind.size() == p.column.size() && p.border.size() == p.column.size() && p.wanted.size() == p.column.size(),
        "elements of combinations must have a kind, a column, a border and a hash each");
  check(std::ranges::all_of(p.kind, [](std::uint8_t kind) { return kind <= kEquals; }), "an element has no such kind");
  check(std::ranges::all_of(p.column, [&](std::int32_t c) { return c >= 0 && static_cast<std::size_t>(c) < n_features(); }),
        "an element is of a column that is not there");
  check(p.key.size() < std::numeric_limits<std::uint32_t>::max(), "combinations have too many keys");
  std::size_t n_values = 0, n_slots = 0;
  for (std::size_t at = 0; at < n; ++at) {
    const std::size_t n_slots_here = std::bit_ceil(std::max<std::size_t>(2 * n_keys(at), 2));
    lookups_.push_back({n_slots, static_cast<unsigned>(64 - std::countr_zero(n_slots_here)), n_values});
    n_slots += n_slots_here;
    const auto n_here = static_cast<std::size_t>(p.output_offset[at + 1] - p.output_offset[at]);
    check(n_here <= p.value.size() / (n_keys(at) + 1), "outputs of combinations need values");
    n_values += n_here * (n_keys(at) + 1);
    check(n_values <= p.value.size(), "outputs of combinations need values");
  }
  check(n_values == p.value.size(), "combinations have values of no output");
  slots_.assign(n_slots, 0);
  for (std::size_t at = 0; at < n; ++at) {
    const std::size_t mask = (std::size_t{1} << (64 - lookups_[at].shift)) - 1;
    const auto first = static_cast<std::size_t>(p.key_offset[at]);
    for (std::size_t i = 0; i < n_keys(at); ++i) {
      std::size_t slot = (p.key[first + i] * kSpread) >> lookups_[at].shift;
      while (slots_[lookups_[at].first + slot] != 0) slot = (slot + 1) & mask;
      slots_[lookups_[at].first + slot] = static_cast<std::uint32_t>(i + 1);
    }
  }
}

std::size_t Combinations::n_keys(std::size_t at) const {
  return static_cast<std::size_t>(parts_.key_offset[at + 1] - parts_.key_offset[at]);
}

// Returns the number of a key, or how many there are if it is none.
std::uint32_t Combinations::find(std::size_t at, std::uint64_t key) const {
  const Lookup& lookup = lookups_[at];
  const std::uint64_t* keys = parts_.key.data() + parts_.key_offset[at];
  const std::size_t mask = (std::size_t{1} << (64 - lookup.shift)) - 1;
  for (std::size_t slot = (key * kSpread) >> lookup.shift;; slot = (slot + 1) & mask) {
    const std::uint32_t number = slots_[lookup.first + slot];
    if (number == 0) return static_cast<std::uint32_t>(n_keys(at));
    if (keys[number - 1] == key) return number - 1;
  }
}

template <class T>
void Combinations::compute_block(const T* cells, const RowsView& rows, std::size_t begin, std::size_t count,
                                 float* out) const {
  const Parts& p = parts_;
  std::array<std::uint64_t, kBlock> key;
  std::array<bool, kBlock> known;
  for (std::size_t at = 0; at + 1 < p.element_offset.size(); ++at) {
    std::fill_n(key.begin(), count, 0);
    std::fill_n(known.begin(), count, true);
    for (auto e = static_cast<std::size_t>(p.element_offset[at]); e < static_cast<std::size_t>(p.element_offset[at + 1]);
         ++e) {
      const T* cell = cells + static_cast<std::ptrdiff_t>(begin) * rows.row_stride + p.column[e] * rows.column_stride;
      const std::int64_t* hashes = p.code_hash.data() + p.code_offset[p.column[e]];
      const auto n_codes = static_cast<double>(p.code_offset[p.column[e] + 1] - p.code_offset[p.column[e]]);
      for (std::size_t i = 0; i < count; ++i, cell += rows.row_stride) {
        std::int64_t hash = 0;
        if (p.kind[e] == kAbove || p.kind[e] == kAboveOrMissing) {
          const auto value = static_cast<float>(*cell);
          hash = value > p.border[e] || (p.kind[e] == kAboveOrMissing && std::isnan(value));
        } else {
          const auto code = static_cast<double>(*cell);
          const bool is_code = code >= 0.0 && code < n_codes;  // not for NaN
          hash = is_code ? hashes[static_cast<std::size_t>(code)] : 0;
          if (p.kind[e] == kEquals) hash = is_code && hash == p.wanted[e];
          else known[i] = known[i] && is_code;
        }
        key[i] = kMix * (key[i] + kMix * static_cast<std::uint64_t>(hash));
      }
    }
    const std::size_t stride = n_keys(at) + 1;
    for (std::size_t i = 0; i < count; ++i) key[i] = known[i] ? find(at, key[i]) : n_keys(at);
    const float* values = p.value.data() + lookups_[at].first_value;
    for (auto o = static_cast<std::size_t>(p.output_offset[at]); o < static_cast<std::size_t>(p.output_offset[at + 1]);
         ++o, values += stride) {
      float* column = out + o * rows.n_rows + begin;
      for (std::size_t i = 0; i < count; ++i) column[i] = values[key[i]];
    }
  }
}

void Combinations::compute(const RowsView& rows, float* out) const {
  for (std::size_t begin = 0; begin < rows.n_rows; begin += kBlock) {
    poll_interrupt();
    const std::size_t count = std::min(kBlock, rows.n_rows - begin);
    if (rows.is_float32) compute_block(static_cast<const float*>(rows.data), rows, begin, count, out);
    else compute_block(static_cast<const double*>(rows.data), rows, begin, count, out);
  }
}

}  // namespace scurry
