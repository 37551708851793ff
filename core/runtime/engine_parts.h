// EngineParts: an engine as the arrays that a file holds (docs/format.md, "A lowered forest"). Trees and values are read
// where they lie; what is small is copied.
//
// A file may come from anybody, and kernels check nothing. So whoever reads a part checks every number in it that is
// used as an index or a count, and throws std::invalid_argument.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace scurry {

struct EngineParts {
  std::span<const std::uint64_t> nodes;       // NarrowNode, or
  std::span<const std::uint32_t> wide_nodes;  // WideNode, [n][3]
  std::span<const std::uint32_t> trees;       // [n_trees][kTreeFields]
  std::span<const std::uint32_t> marks;
  std::span<const std::uint32_t> category_tests;  // [n][3]
  std::span<const std::uint32_t> category_bits;
  std::span<const std::uint32_t> shape;    // numeric columns, the place of the pad, and 1 if trees are sliced
  std::span<const std::uint32_t> columns;  // [n][kColumnFields]
  std::span<const double> thresholds;
  std::span<const std::uint32_t> filters;
  std::span<const std::uint32_t> sets;  // [n][kSetFields]
  std::span<const std::uint32_t> set_keys;
  std::span<const std::uint32_t> byte_keys;
  std::span<const double> values;
  std::span<const std::int64_t> label_start;
  std::span<const std::uint16_t> label_words;

  static constexpr std::size_t kTreeFields = 3, kTestFields = 3, kColumnFields = 8, kSetFields = 5;

  // Calls visit(name, part) for every part.
  template <class Self, class Visit>
  static void for_each(Self& self, Visit visit) {
    visit("nodes", self.nodes);
    visit("wide_nodes", self.wide_nodes);
    visit("trees", self.trees);
    visit("marks", self.marks);
    visit("category_tests", self.category_tests);
    visit("category_bits", self.category_bits);
    visit("shape", self.shape);
    visit("columns", self.columns);
    visit("thresholds", self.thresholds);
    visit("filters", self.filters);
    visit("sets", self.sets);
    visit("set_keys", self.set_keys);
    visit("byte_keys", self.byte_keys);
    visit("values", self.values);
    visit("label_start", self.label_start);
    visit("label_words", self.label_words);
  }
};

// The parts of an engine, some of which point into it and others into vectors made for them.
struct StoredEngine {
  EngineParts parts;
  std::vector<std::vector<std::uint32_t>> made;

  std::span<const std::uint32_t> keep(std::vector<std::uint32_t> numbers) {
    return made.emplace_back(std::move(numbers));
  }
};

// Throws if a part is not as it must be.
inline void require(bool is_sound, const char* part) {
  if (!is_sound) throw std::invalid_argument(std::string("the lowered forest has unsound ") + part);
}

// How many rows of so many fields a part has.
inline std::size_t rows_of(std::span<const std::uint32_t> part, std::size_t n_fields, const char* name) {
  require(part.size() % n_fields == 0, name);
  return part.size() / n_fields;
}

}  // namespace scurry
