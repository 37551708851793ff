// Python's functions for closures: charges, cuts, paths.
#include <utility>

#include "bind/bind.h"
#include "closure/families.h"
#include "closure/items.h"
#include "closure/levels.h"
#include "closure/path.h"

namespace scurry {

using namespace nb::literals;

namespace {

ForestPaths paths_of(const Array<std::int32_t>& feature, const Array<std::int32_t>& parent, const IntMatrix& leaves) {
  return {span_of(feature), span_of(parent), {leaves.data(), leaves.size()}, leaves.shape(1)};
}

ClosureProblem problem_of(const Array<std::int32_t>& parent, const Array<std::int64_t>& gain,
                          const Array<std::int64_t>& cost, const Array<std::int64_t>& item_offset,
                          const Array<std::int32_t>& item_node, const Array<std::int64_t>& item_cost) {
  const std::size_t n_nodes = parent.size(), n_items = item_cost.size();
  if (gain.size() != n_nodes || cost.size() != n_nodes || item_offset.size() != n_items + 1) {
    throw std::invalid_argument("the arrays of a closure problem disagree in length");
  }
  return {vector_of(parent),      vector_of(gain),      vector_of(cost),
          vector_of(item_offset), vector_of(item_node), vector_of(item_cost)};
}

nb::tuple tuple_of(Items items) {
  return nb::make_tuple(array_of(std::move(items.offset)), array_of(std::move(items.node)),
                        array_of(std::move(items.charge)), array_of(std::move(items.n_rows)));
}

Items items_of(const nb::tuple& arrays) {
  if (arrays.size() != 4) throw std::invalid_argument("items are four arrays: offset, node, charge and n_rows");
  Items items{vector_of(nb::cast<Array<std::int64_t>>(arrays[0])), vector_of(nb::cast<Array<std::int32_t>>(arrays[1])),
              vector_of(nb::cast<Array<std::int32_t>>(arrays[2])), vector_of(nb::cast<Array<std::int64_t>>(arrays[3]))};
  if (items.offset.size() != items.size() + 1 || items.n_rows.size() != items.size() ||
      items.offset.back() != static_cast<std::int64_t>(items.node.size())) {
    throw std::invalid_argument("the arrays of items disagree in length");
  }
  return items;
}

nb::tuple find_charges_in(const Array<std::int32_t>& feature, const Array<std::int32_t>& parent,
                          const IntMatrix& leaves, const Array<std::int32_t>& charge_of_feature,
                          const Array<std::int32_t>& charge_of_group, std::size_t n_charges) {
  RowCharges found = without_gil([&] {
    return find_charges(paths_of(feature, parent, leaves),
                        {span_of(charge_of_feature), span_of(charge_of_group), n_charges});
  });
  return nb::make_tuple(tuple_of(std::move(found.items)), array_of(std::move(found.alone), 2),
                        array_of(std::move(found.visits)));
}

nb::tuple closure_path_of(const Array<std::int32_t>& parent, const Array<std::int64_t>& gain,
                          const Array<std::int64_t>& cost, const Array<std::int64_t>& item_offset,
                          const Array<std::int32_t>& item_node, const Array<std::int64_t>& item_cost,
                          const nb::object& progress) {
  ClosurePath path = without_gil([&] {
    return closure_path(problem_of(parent, gain, cost, item_offset, item_node, item_cost),
                        [&](std::size_t n_settled) { report(progress, n_settled); });
  });
  std::vector<std::int64_t> gains, costs;
  for (const Breakpoint& breakpoint : path.breakpoints) {
    gains.push_back(breakpoint.gain);
    costs.push_back(breakpoint.cost);
  }
  return nb::make_tuple(array_of(std::move(gains)), array_of(std::move(costs)), array_of(std::move(path.kept_until)));
}

}  // namespace

void bind_closure(nb::module_& m) {
  m.def("find_charges", &find_charges_in, "feature"_a, "parent"_a, "leaves"_a, "charge_of_feature"_a,
        "charge_of_group"_a, "n_charges"_a);
  m.def(
      "merge_items",
      [](const nb::tuple& one, const nb::tuple& other) {
        const Items first = items_of(one), second = items_of(other);
        return tuple_of(without_gil([&] { return merge(first, second); }));
      },
      "one"_a, "other"_a);
  m.def(
      "count_uses",
      [](const Array<std::int32_t>& feature, const Array<std::int32_t>& parent, const IntMatrix& leaves,
         std::size_t n_features) {
        return array_of(without_gil([&] { return count_uses(paths_of(feature, parent, leaves), n_features); }),
                        n_features);
      },
      "feature"_a, "parent"_a, "leaves"_a, "n_features"_a);
  m.def(
      "largest_closure",
      [](const Array<std::int32_t>& parent, const Array<std::int64_t>& gain, const Array<std::int64_t>& cost,
         const Array<std::int64_t>& item_offset, const Array<std::int32_t>& item_node,
         const Array<std::int64_t>& item_cost, std::int64_t gain_weight, std::int64_t cost_weight,
         std::size_t one_cut_below) {
        return array_of(without_gil([&] {
          return largest_closure(problem_of(parent, gain, cost, item_offset, item_node, item_cost),
                                 {gain_weight, cost_weight}, one_cut_below);
        }));
      },
      "parent"_a, "gain"_a, "cost"_a, "item_offset"_a, "item_node"_a, "item_cost"_a, "gain_weight"_a, "cost_weight"_a,
      "one_cut_below"_a = kOneCutBelow);
  m.def("closure_path", &closure_path_of, "parent"_a, "gain"_a, "cost"_a, "item_offset"_a, "item_node"_a, "item_cost"_a,
        "progress"_a.none());
  m.def(
      "tree_levels",
      [](const Array<std::int32_t>& parent, const Array<double>& gain, const Array<double>& cost) {
        return array_of(without_gil([&] { return tree_levels(span_of(parent), span_of(gain), span_of(cost)); }));
      },
      "parent"_a, "gain"_a, "cost"_a);
  m.def(
      "best_subtrees",
      [](const Array<std::int32_t>& parent, const Array<double>& weight) {
        return array_of(without_gil([&] { return best_subtrees(span_of(parent), span_of(weight)); }));
      },
      "parent"_a, "weight"_a);
  m.def(
      "family_savings",
      [](const Array<std::int64_t>& item_offset, const Array<std::int32_t>& item_node,
         const Array<std::int64_t>& item_cost, const Array<std::uint8_t>& kept, const Array<std::uint64_t>& goes_with,
         std::size_t n_families) {
        if (goes_with.size() != kept.size() * ((n_families + 63) / 64)) {
          throw std::invalid_argument("goes_with must have a bit for every node and family");
        }
        return array_of(without_gil([&] {
          return family_savings({span_of(item_offset), span_of(item_node), span_of(item_cost)}, span_of(kept),
                                span_of(goes_with), n_families);
        }));
      },
      "item_offset"_a, "item_node"_a, "item_cost"_a, "kept"_a, "goes_with"_a, "n_families"_a);
}

}  // namespace scurry
