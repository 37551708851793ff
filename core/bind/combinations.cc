// Python's Combinations.
#include "tables/combinations.h"

#include "bind/bind.h"

namespace scurry {

using namespace nb::literals;

void bind_combinations(nb::module_& m) {
  nb::class_<Combinations>(m, "Combinations")
      .def(
          "__init__",
          [](Combinations* self, const Array<std::int64_t>& code_offset, const Array<std::int64_t>& code_hash,
             const Array<std::int64_t>& element_offset, const Array<std::int32_t>& column,
             const Array<std::uint8_t>& kind, const Array<float>& border, const Array<std::int64_t>& wanted,
             const Array<std::int64_t>& key_offset, const Array<std::uint64_t>& key,
             const Array<std::int64_t>& output_offset, const Array<float>& value) {
            new (self) Combinations({vector_of(code_offset), vector_of(code_hash), vector_of(element_offset),
                                     vector_of(column), vector_of(kind), vector_of(border), vector_of(wanted),
                                     vector_of(key_offset), vector_of(key), vector_of(output_offset),
                                     vector_of(value)});
          },
          nb::kw_only(), "code_offset"_a, "code_hash"_a, "element_offset"_a, "column"_a, "kind"_a, "border"_a,
          "wanted"_a, "key_offset"_a, "key"_a, "output_offset"_a, "value"_a)
      .def_prop_ro("n_features", &Combinations::n_features)
      .def_prop_ro("n_outputs", &Combinations::n_outputs)
      .def("compute", [](const Combinations& combinations, const Rows& rows) {
        const RowsView view = view_of(combinations, rows);
        if (view.is_bytes) throw std::invalid_argument("combinations are computed of numbers, not of bytes");
        const std::size_t n_outputs = combinations.n_outputs();
        std::vector<float> out(view.n_rows * n_outputs);
        without_gil(out.size(), [&] { combinations.compute(view, out.data()); });
        return array_of(std::move(out));
      });
}

}  // namespace scurry
