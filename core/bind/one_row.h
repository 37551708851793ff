// OneRow: a Python function bound to an engine that answers for one row, without making arrays.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>

#include "bind/bind.h"
#include "runtime/early_exit.h"

namespace scurry {

// Which rows need no conversion, and what answers all others: any Python function of a row.
struct RowsTaken {
  bool float32, float64;
  std::vector<double> limits;  // of the first columns: rows with a number up to its limit are converted; NaN is none
  nb::object otherwise;
};

// Returns a new reference to the answer for the one row of the view.
using RowAnswer = std::function<nb::object(const RowsView&)>;

// The function is a method of C, which Python calls without making a tuple of its argument. `answer` must keep alive
// what it needs.
nb::object make_one_row(std::size_t n_features, RowsTaken taken, RowAnswer answer);

// Throws unless `labels` is None or a tuple with an object for each class. A single output is that of two classes.
inline void check_labels(const nb::object& labels, std::size_t n_outputs) {
  if (labels.is_none()) return;
  if (!PyTuple_CheckExact(labels.ptr()) || nb::len(labels) < std::max<std::size_t>(n_outputs, 2)) {
    throw std::invalid_argument("a label is needed for every class");
  }
}

// The Python object of a class that native code writes as `written`: the number itself, or one of `labels`.
inline nb::object label_of(const nb::object& labels, std::int64_t written) {
  if (labels.is_none()) return nb::steal(PyLong_FromLongLong(written));
  return nb::borrow(PyTuple_GetItem(labels.ptr(), written));
}

inline nb::object tuple_of(const double* values, std::size_t n) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(n)));
  for (std::size_t i = 0; i < n; ++i) {
    PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), PyFloat_FromDouble(values[i]));
  }
  return made;
}

// Calls work with space for n numbers, on the stack if they are few.
template <class Work>
nb::object with_room(std::size_t n, Work work) {
  double few[16];
  if (n <= std::size(few)) return work(few);
  std::vector<double> many(n);
  return work(many.data());
}

// Defines what answers the labels of two classes, for a batch and for one row. Rows too close to the threshold are
// answered by an engine of the same forest.
template <class Exit>
void define_decisions(nb::class_<Exit>& type) {
  using namespace nb::literals;
  const auto check_exact = [](const Exit& exit, const Engine& exact) {
    if (exact.n_features() != exit.n_features()) {
      throw std::invalid_argument("the exact engine is of another forest");
    }
  };
  type.def("labels",
           [check_exact](const Exit& exit, const Rows& rows, const Out<std::int64_t>& out, const Engine& exact,
                         std::int64_t negative_label, std::int64_t positive_label, std::int32_t threshold,
                         std::int32_t tolerance, std::size_t n_threads) {
             const RowsView view = view_of(exit, rows);
             check_output(out.size(), view.n_rows);
             check_exact(exit, exact);
             without_gil(view.n_rows * exit.n_trees(), [&] {
               exit.labels(view, {negative_label, positive_label, threshold, tolerance}, exact, out.data(), n_threads);
             });
           });
  type.def(
      "one_row",
      [check_exact](nb::handle self, nb::handle engine, std::int64_t negative_label, std::int64_t positive_label,
                    std::int32_t threshold, std::int32_t tolerance, nb::object labels, const RowsTaken& rows) {
        const auto& exit = nb::cast<const Exit&>(self);
        const auto& exact = nb::cast<const Engine&>(engine);
        check_exact(exit, exact);
        check_labels(labels, exact.n_outputs());
        const ExitDecision decision{negative_label, positive_label, threshold, tolerance};
        return make_one_row(exit.n_features(), rows,
                            [&exit, &exact, decision, labels, alive = nb::make_tuple(self, engine)](auto& row) {
                              std::int64_t label;
                              without_gil(exit.n_trees(), [&] { exit.labels(row, decision, exact, &label, 1); });
                              return label_of(labels, label);
                            });
      },
      "exact"_a, "negative_label"_a, "positive_label"_a, "threshold"_a, "tolerance"_a, nb::kw_only(),
      "labels"_a.none(), "rows"_a);
}

}  // namespace scurry
