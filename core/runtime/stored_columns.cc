// Columns as files hold them.
#include <algorithm>
#include <bit>

#include "runtime/byte_rows.h"
#include "runtime/columns.h"

namespace scurry {
namespace {

constexpr std::size_t kMostColumns = std::size_t{1} << 24;

// Whether what a column of doubles reads lies in tables of these sizes.
bool fits_thresholds(const Column& column, std::size_t n_thresholds, std::size_t n_words) {
  constexpr std::uint32_t kLeastShift = 1, kMostShift = 31;  // of filters with two words and more
  if (!std::has_single_bit(column.n_thresholds) ||
      std::uint64_t{column.first_threshold} + column.n_thresholds > n_thresholds) {
    return false;
  }
  if (column.ranked) return true;
  return column.filter_shift >= kLeastShift && column.filter_shift <= kMostShift &&
         std::uint64_t{column.first_filter} + (std::uint64_t{1} << (32 - column.filter_shift)) <= n_words;
}

}  // namespace

Columns::Columns(const ForestView& forest, const EngineParts& parts)
    : float32_(forest.float32_input), truncate_categories_(forest.truncate_categories) {
  const std::size_t n = rows_of(parts.columns, EngineParts::kColumnFields, "columns");
  require((parts.shape.size() == 2 || (parts.shape.size() == 3 && parts.shape[2] == 1)) && forest.n_features > 0, "columns");
  n_numeric_ = parts.shape[0];
  pad_ = parts.shape[1];
  require(n_numeric_ <= pad_ && pad_ < n && n <= kMostColumns, "columns");
  thresholds_.assign(parts.thresholds.begin(), parts.thresholds.end());
  filters_.assign(parts.filters.begin(), parts.filters.end());
  for (std::size_t c = 0; c < n; ++c) {
    const std::uint32_t* fields = &parts.columns[c * EngineParts::kColumnFields];
    require(fields[0] < forest.n_features && fields[1] <= static_cast<std::uint32_t>(Missing::kCategory) &&
                fields[3] < 8 && (c != pad_ || fields[3] == 0),
            "columns");
    const Column column{fields[0],
                        static_cast<Missing>(fields[1]),
                        fields[2],
                        (fields[3] & 1) != 0,
                        (fields[3] & 2) != 0,
                        (fields[3] & 4) != 0,
                        fields[4],
                        fields[5],
                        fields[6],
                        fields[7]};
    if (c < n_numeric_) {
      require(column.missing != Missing::kCategory, "columns");
      require(float32_ || fits_thresholds(column, thresholds_.size(), filters_.size()), "thresholds");
      has_mixed_ |= column.mixed;
    }
    columns_.push_back(column);
  }
  read_sets(forest.n_features, parts);
  describe_floats();
  key_of_byte_.assign(parts.byte_keys.begin(), parts.byte_keys.end());
  if (key_of_byte_.empty()) return;
  require(key_of_byte_.size() == kByteValues * size(), "keys of bytes");
  const auto of_pad = key_of_byte_.begin() + static_cast<std::ptrdiff_t>(kByteValues * pad_);
  require(std::all_of(of_pad, of_pad + kByteValues, [](std::uint32_t key) { return key == 0; }), "keys of bytes");
}

// Sets stand next to each other, from the first column that is not numeric to the pad.
void Columns::read_sets(std::size_t n_features, const EngineParts& parts) {
  set_keys_.assign(parts.set_keys.begin(), parts.set_keys.end());
  const std::size_t n_sets = rows_of(parts.sets, EngineParts::kSetFields, "sets");
  std::uint64_t next = n_numeric_;
  for (std::size_t i = 0; i < n_sets; ++i) {
    const std::uint32_t* fields = &parts.sets[i * EngineParts::kSetFields];
    const SetColumns sets{fields[0], fields[1], fields[2], fields[3], fields[4]};
    require(sets.feature < n_features && sets.first_column == next && sets.n_codes <= kMostCodesOfSet &&
                sets.first_key + (std::uint64_t{sets.n_codes} + 2) * sets.n_columns <= set_keys_.size(),
            "sets");
    next += sets.n_columns;
    sets_.push_back(sets);
  }
  require(next == pad_, "sets");
}

void Columns::store(StoredEngine& out) const {
  std::vector<std::uint32_t> fields, of_sets;
  for (const Column& column : columns_) {
    const std::uint32_t flags = (column.is_read ? 1u : 0u) | (column.mixed ? 2u : 0u) | (column.ranked ? 4u : 0u);
    fields.insert(fields.end(), {column.feature, static_cast<std::uint32_t>(column.missing), column.missing_key, flags,
                                 column.first_threshold, column.n_thresholds, column.first_filter, column.filter_shift});
  }
  for (const SetColumns& sets : sets_) {
    of_sets.insert(of_sets.end(), {sets.feature, sets.first_column, sets.n_columns, sets.n_codes,
                                   static_cast<std::uint32_t>(sets.first_key)});
  }
  out.parts.shape = out.keep({n_numeric_, pad_});
  out.parts.columns = out.keep(std::move(fields));
  out.parts.thresholds = thresholds_;
  out.parts.filters = filters_;
  out.parts.sets = out.keep(std::move(of_sets));
  out.parts.set_keys = set_keys_;
  out.parts.byte_keys = key_of_byte_;
}

}  // namespace scurry
