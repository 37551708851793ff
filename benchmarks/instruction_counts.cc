// Scores the rows of a file with the forest of that file: what benchmarks/instruction_counts.py counts instructions of.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "runtime/engine.h"

namespace {

// The arrays of a file, each preceded by its size in bytes.
class File {
 public:
  explicit File(const char* path) : stream_(path, std::ios::binary) {
    if (!stream_) throw std::runtime_error(std::string("cannot open ") + path);
  }

  template <class T>
  std::vector<T> next() {
    std::uint64_t n_bytes = 0;
    stream_.read(reinterpret_cast<char*>(&n_bytes), sizeof n_bytes);
    if (!stream_ || n_bytes % sizeof(T) != 0) throw std::runtime_error("the file does not hold a forest");
    std::vector<T> values(n_bytes / sizeof(T));
    stream_.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(n_bytes));
    if (!stream_) throw std::runtime_error("the file ends too soon");
    return values;
  }

 private:
  std::ifstream stream_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("one file is needed");
    File file(argv[1]);
    const auto header = file.next<std::int64_t>();
    const auto tree_offset = file.next<std::int64_t>();
    const auto feature = file.next<std::int32_t>(), left = file.next<std::int32_t>(), right = file.next<std::int32_t>();
    const auto threshold = file.next<double>();
    const auto default_left = file.next<std::uint8_t>(), missing = file.next<std::uint8_t>();
    const auto value = file.next<double>();
    const auto tree_output = file.next<std::int32_t>();
    const auto base_score = file.next<double>();
    const auto rows = file.next<float>();
    const std::vector<std::int32_t> no_sets(feature.size(), -1);
    const std::vector<std::int64_t> no_offsets{0}, labels{0, 1};

    scurry::ForestView forest;
    forest.tree_offset = tree_offset;
    forest.feature = feature;
    forest.left = left;
    forest.right = right;
    forest.category_set = no_sets;
    forest.threshold = threshold;
    forest.default_left = default_left;
    forest.missing = missing;
    forest.value = value.data();
    forest.n_columns = value.size() / feature.size();
    forest.tree_output = tree_output;
    forest.base_score = base_score;
    forest.category_offset = no_offsets;
    forest.n_features = static_cast<std::size_t>(header.at(0));
    forest.n_classes = 2;
    forest.aggregation = static_cast<scurry::Aggregation>(header.at(1));
    forest.float32_input = header.at(2) != 0;
    forest.float32_score = header.at(3) != 0;
    forest.strict_comparison = header.at(4) != 0;

    const scurry::Engine engine(forest, labels, false);
    const std::size_t n_rows = rows.size() / forest.n_features;
    std::vector<double> scores(n_rows * engine.n_outputs());
    engine.scores({rows.data(), n_rows, static_cast<std::ptrdiff_t>(forest.n_features), 1, true}, scores.data(), 1);
    std::uint64_t hash = 14695981039346656037u;  // of the bits of all scores (FNV-1a)
    for (const double score : scores) {
      std::uint8_t bytes[sizeof score];
      std::memcpy(bytes, &score, sizeof score);
      for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 1099511628211u;
    }
    std::printf("%s %s %016llx\n", scurry::kernels().name, engine.loop(), static_cast<unsigned long long>(hash));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
