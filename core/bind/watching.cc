// Python's Draws, ShadowRows and follow_bets.
#include <cstring>
#include <limits>

#include "bind/bind.h"
#include "calibrate/bets.h"
#include "runtime/shadow_rows.h"

namespace scurry {

using namespace nb::literals;

namespace {

using Counts = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Column = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<double> output_of(const Column& column, std::size_t n) {
  check_output(column.size(), n);
  return {column.data(), n};
}

Draws make_draws(double share, std::uint64_t seed) {
  if (!(share > 0.0 && share <= 1.0)) throw std::invalid_argument("share must be in (0, 1]");
  return Draws(share, seed);
}

void check_numbers(std::int64_t start, std::int64_t stop) {
  if (start < 0 || stop < start || stop > std::numeric_limits<std::int64_t>::max() - kDrawBlock) {
    throw std::invalid_argument("rows are numbered from 0 to 2**62 or so");
  }
}

RowsView same_rows(const ShadowRows& shadow, const Rows& rows) {
  const RowsView view = view_of(shadow, rows);
  if (view.is_bytes || view.is_float32 != shadow.is_float32()) throw std::invalid_argument("rows of another dtype");
  return view;
}

nb::tuple draw(ShadowRows& shadow, const Rows& rows, std::int64_t first_number) {
  const RowsView view = same_rows(shadow, rows);
  if (view.n_rows >= std::size_t{1} << 62) throw std::invalid_argument("too many rows");
  const std::int64_t stop = first_number + static_cast<std::int64_t>(view.n_rows);
  check_numbers(first_number, stop);
  return nb::make_tuple(array_of(shadow.draw(view, first_number)), shadow.none_before(stop));
}

void add(ShadowRows& shadow, const Rows& rows, const Array<std::int64_t>& numbers) {
  const RowsView view = same_rows(shadow, rows);
  check_output(numbers.size(), view.n_rows);
  shadow.add(view, span_of(numbers));
}

template <class Value>
nb::object values_of(const ShadowRows& shadow) {
  std::vector<Value> values(shadow.values().size() / sizeof(Value));
  if (!values.empty()) std::memcpy(values.data(), shadow.values().data(), shadow.values().size());
  return array_of(std::move(values), shadow.n_features());
}

nb::tuple held(const ShadowRows& shadow) {
  const auto numbers = shadow.numbers();
  return nb::make_tuple(shadow.is_float32() ? values_of<float>(shadow) : values_of<double>(shadow),
                        array_of(std::vector<std::int64_t>(numbers.begin(), numbers.end())));
}

}  // namespace

void bind_watching(nb::module_& m) {
  m.def("mix_bits", &mix_bits, "value"_a);
  m.attr("DRAW_BLOCK") = kDrawBlock;
  nb::class_<Draws>(m, "Draws")
      .def("__init__", [](Draws* self, double share, std::uint64_t seed) { new (self) Draws(make_draws(share, seed)); },
           "share"_a, "seed"_a)
      .def("between",
           [](Draws& draws, std::int64_t start, std::int64_t stop) {
             check_numbers(start, stop);
             return array_of(draws.between(start, stop));
           })
      .def("none_before", [](Draws& draws, std::int64_t start) {
        check_numbers(start, start);
        return draws.none_before(start);
      });
  nb::class_<ShadowRows>(m, "ShadowRows")
      .def(
          "__init__",
          [](ShadowRows* self, double share, std::uint64_t seed, std::size_t n_features, bool is_float32) {
            if (n_features == 0) throw std::invalid_argument("rows have at least one feature");
            new (self) ShadowRows(make_draws(share, seed), n_features, is_float32);
          },
          "share"_a, "seed"_a, nb::kw_only(), "n_features"_a, "is_float32"_a)
      .def("draw", &draw)
      .def("add", &add)
      .def("held", &held)
      .def("clear", &ShadowRows::clear)
      .def("__len__", [](const ShadowRows& shadow) { return shadow.numbers().size(); });
  m.def(
      "follow_bets",
      [](const Counts& counts, const Array<double>& started, const Matrix& log_gains, double first_capital,
         const Column& log_capital, const Column& begun, const Column& e_values, const Column& changes) {
        const BetEpochs epochs{{counts.data(), counts.size()},
                               span_of(started),
                               {log_gains.data(), log_gains.size()},
                               log_gains.shape(1)};
        if (log_gains.size() == 0 || counts.shape(0) != started.size() || counts.shape(1) != log_gains.shape(1)) {
          throw std::invalid_argument("every epoch needs a count of each loss, and every loss a gain");
        }
        const BetState state{output_of(log_capital, epochs.n_bets()), output_of(begun, epochs.n_bets())};
        follow_bets(epochs, first_capital, state, output_of(e_values, epochs.n_epochs()),
                    output_of(changes, epochs.n_epochs()));
      },
      "counts"_a, "started"_a, "log_gains"_a, nb::kw_only(), "first_capital"_a, "log_capital"_a, "begun"_a,
      "e_values"_a, "changes"_a);
}

}  // namespace scurry
