// Python's Anytime, AnytimeRow and AbortFlag.
#include "runtime/anytime.h"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bind/bind.h"

namespace scurry {

using namespace nb::literals;

namespace {

struct AbortFlag {
  std::atomic<bool> is_set{false};
};

// A row that is walked from Python, a few tree steps at a time.
struct AnytimeRow {
  const Anytime& anytime;
  RowState state;
};

template <class T>
T* data_of(const std::optional<Out<T>>& out, std::size_t size) {
  if (!out) return nullptr;
  check_output(out->size(), size);
  return out->data();
}

void run(const Anytime& anytime, const Rows& rows, std::size_t n_threads, std::size_t max_steps, double time_us,
         const AbortFlag* abort, const std::optional<Out<std::int64_t>>& labels,
         const std::optional<Out<double>>& probabilities, const std::optional<Out<double>>& scores,
         const std::optional<Out<std::int32_t>>& n_steps, const std::optional<Out<std::uint8_t>>& reasons,
         const std::optional<Out<double>>& times_us) {
  const RowsView view = view_of(anytime, rows);
  const AnytimeOutcome outcome{data_of(labels, view.n_rows),
                               data_of(probabilities, view.n_rows * anytime.n_probabilities()),
                               data_of(scores, view.n_rows * anytime.n_outputs()),
                               data_of(n_steps, view.n_rows),
                               data_of(reasons, view.n_rows),
                               data_of(times_us, view.n_rows)};
  const StepBudget budget{max_steps, time_us, abort == nullptr ? nullptr : &abort->is_set};
  // Few rows keep the interpreter lock, because an answer that is ready in time should not have to wait for the lock.
  // But if there is a flag, another thread must be able to set it.
  if (abort == nullptr && view.n_rows <= 16) return anytime.run(view, budget, outcome, n_threads);
  const WithoutGil released;
  anytime.run(view, budget, outcome, n_threads);
}

}  // namespace

void bind_anytime(nb::module_& m) {
  nb::class_<AbortFlag>(m, "AbortFlag")
      .def(nb::init<>())
      .def("set", [](AbortFlag& flag) { flag.is_set = true; })
      .def("clear", [](AbortFlag& flag) { flag.is_set = false; })
      .def("is_set", [](const AbortFlag& flag) { return flag.is_set.load(); });
  nb::class_<Anytime>(m, "Anytime")
      .def(
          "__init__",
          [](Anytime* self, const ForestArrays& forest, const Array<std::int64_t>& classes,
             const Array<std::int32_t>& steps, const Array<double>& weights) {
            if (weights.size() != 0 && weights.size() != forest.view.n_nodes()) {
              throw std::invalid_argument("a weight is needed for every node, or none");
            }
            nb::gil_scoped_release release;
            new (self) Anytime(forest.view, vector_of(classes), span_of(steps), span_of(weights));
          },
          "forest"_a, nb::kw_only(), "classes"_a, "steps"_a, "weights"_a)
      .def("run", &run, "rows"_a, "n_threads"_a, "max_steps"_a, "time_us"_a, "abort"_a.none(), nb::kw_only(),
           "labels"_a = nb::none(), "probabilities"_a = nb::none(), "scores"_a = nb::none(), "n_steps"_a = nb::none(),
           "reasons"_a = nb::none(), "times_us"_a = nb::none())
      .def_prop_ro("bytes", &Anytime::bytes);
  nb::class_<AnytimeRow>(m, "AnytimeRow")
      .def(
          "__init__",
          [](AnytimeRow* self, const Anytime& anytime, const Rows& rows) {
            const RowsView view = view_of(anytime, rows);
            if (view.n_rows != 1) throw std::invalid_argument("one row is needed");
            new (self) AnytimeRow{anytime, {}};
            anytime.begin(view, 0, self->state);
          },
          "anytime"_a, "row"_a, nb::keep_alive<1, 2>())
      .def("advance", [](AnytimeRow& row, std::size_t n) { row.anytime.advance(row.state, n); })
      .def("answer",
           [](const AnytimeRow& row, const Out<std::int64_t>& label, const Out<double>& probabilities) {
             check_output(label.size(), 1);
             check_output(probabilities.size(), row.anytime.n_probabilities());
             row.anytime.answer(row.state, {label.data(), probabilities.data()}, 0);
           })
      .def_prop_ro("n_steps", [](const AnytimeRow& row) { return row.state.n_steps; });
}

}  // namespace scurry
