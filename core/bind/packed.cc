// Python's PackedForest, and the functions that pack arrays.
#include "packed/packed_forest.h"

#include <nanobind/stl/string.h>

#include "bind/bind.h"
#include "packed/thresholds.h"

namespace scurry {

using namespace nb::literals;

namespace {

constexpr const char* kOrders[] = {"preorder", "level", "listed"};

NodeOrder parse_order(const std::string& name) {
  for (std::uint8_t i = 0; i < 3; ++i) {
    if (name == kOrders[i]) return static_cast<NodeOrder>(i);
  }
  throw std::invalid_argument("unknown node_order " + name);
}

template <class T>
std::span<const T> part_of(const nb::dict& arrays, const char* name) {
  if (!arrays.contains(name)) return {};
  return span_of(nb::cast<Array<T>>(arrays[name], false));
}

void make_packed(HeldPacked* self, const nb::dict& arrays, std::size_t n_splits, std::size_t n_leaves,
                 const std::string& order) {
  PackedArrays parts;
  parts.tree_nodes = part_of<std::uint32_t>(arrays, "tree_nodes");
  parts.topology = part_of<std::uint8_t>(arrays, "topology");
  parts.split_id = part_of<std::uint8_t>(arrays, "split_id");
  parts.leaf_id = part_of<std::uint8_t>(arrays, "leaf_id");
  parts.node_number = part_of<std::uint8_t>(arrays, "node_number");
  parts.has_leaf_ids = arrays.contains("leaf_id");
  parts.n_splits = n_splits;
  parts.n_leaves = n_leaves;
  parts.order = parse_order(order);
  PackedForest forest = without_gil([&] { return PackedForest(parts); });
  new (self) HeldPacked{arrays, std::move(forest)};
}

nb::dict expand(const HeldPacked& held) {
  if (!held.forest.is_checked()) throw std::invalid_argument("the trees have not been checked");
  const std::size_t n = held.forest.n_nodes();
  std::vector<std::int32_t> left(n), right(n), entry(n), depth(n), order(n);
  without_gil([&] {
    held.forest.expand({left.data(), right.data(), entry.data(), depth.data(), order.data()});
    return 0;
  });
  nb::dict out;
  out["left"] = array_of(std::move(left));
  out["right"] = array_of(std::move(right));
  out["entry"] = array_of(std::move(entry));
  out["depth"] = array_of(std::move(depth));
  out["level_order"] = array_of(std::move(order));
  return out;
}

}  // namespace

void bind_packed(nb::module_& m) {
  nb::class_<HeldPacked>(m, "PackedForest")
      .def("__init__", &make_packed, "arrays"_a, nb::kw_only(), "n_splits"_a, "n_leaves"_a, "node_order"_a)
      .def("check",
           [](HeldPacked& held) {
             without_gil([&] {
               held.forest.check();
               return 0;
             });
           })
      .def("expand", &expand)
      .def_prop_ro("n_nodes", [](const HeldPacked& held) { return held.forest.n_nodes(); })
      .def_prop_ro("tree_offset", [](const HeldPacked& held) { return array_of(std::vector(held.forest.tree_offset())); })
      .def_prop_ro("tree_depth", [](const HeldPacked& held) { return array_of(std::vector(held.forest.tree_depth())); });
  m.def(
      "level_order",
      [](const Array<std::int64_t>& tree_offset, const Array<std::int32_t>& left, const Array<std::int32_t>& right) {
        LevelOrder found = level_order(span_of(tree_offset), span_of(left), span_of(right));
        const auto order = static_cast<std::uint8_t>(found.order);
        return nb::make_tuple(array_of(std::move(found.nodes)), kOrders[order]);
      },
      "tree_offset"_a, "left"_a, "right"_a);
  m.def(
      "distinct_rows",
      [](const nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>& rows) {
        DistinctRows found = without_gil([&] { return distinct_rows(rows.data(), rows.shape(0), rows.shape(1)); });
        return nb::make_tuple(array_of(std::move(found.id)), array_of(std::move(found.first)));
      },
      "rows"_a);
  m.def(
      "pack_bits",
      [](const Array<std::uint32_t>& numbers, unsigned width) {
        if (width < 1 || width > 32) throw std::invalid_argument("numbers have 1 to 32 bits");
        return array_of(pack_bits(span_of(numbers), width));
      },
      "numbers"_a, "width"_a);
  m.def(
      "unpack_bits",
      [](const Array<std::uint8_t>& bytes, std::size_t n, unsigned width) {
        const Bits bits("a list of numbers", span_of(bytes), n, width);
        std::vector<std::uint32_t> numbers(n);
        for (std::size_t i = 0; i < n; ++i) numbers[i] = bits[i];
        return array_of(std::move(numbers));
      },
      "bytes"_a, "n"_a, "width"_a);
  m.def(
      "pack_thresholds",
      [](const Array<double>& thresholds, const Array<std::uint32_t>& feature_splits) {
        ThresholdBlocks blocks = pack_thresholds(span_of(thresholds), span_of(feature_splits));
        return nb::make_tuple(array_of(std::move(blocks.shift)), array_of(std::move(blocks.width)),
                              array_of(std::move(blocks.delta)));
      },
      "thresholds"_a, "feature_splits"_a);
  m.def(
      "unpack_thresholds",
      [](const Array<double>& first_threshold, const Array<std::uint32_t>& feature_splits,
         const Array<std::uint8_t>& shift, const Array<std::uint8_t>& width, const Array<std::uint8_t>& delta) {
        return array_of(unpack_thresholds(
            {span_of(first_threshold), span_of(feature_splits), span_of(shift), span_of(width), span_of(delta)}));
      },
      "first_threshold"_a, "feature_splits"_a, "shift"_a, "width"_a, "delta"_a);
  m.def(
      "check_thresholds",
      [](const Array<double>& first_threshold, const Array<std::uint32_t>& feature_splits,
         const Array<std::uint8_t>& shift, const Array<std::uint8_t>& width, const Array<std::uint8_t>& delta) {
        check_thresholds(
            {span_of(first_threshold), span_of(feature_splits), span_of(shift), span_of(width), span_of(delta)});
      },
      "first_threshold"_a, "feature_splits"_a, "shift"_a, "width"_a, "delta"_a);
}

}  // namespace scurry
