// What the Python module is made of, one function per file of core/bind, and the array types they share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/forest_view.h"

namespace scurry {

namespace nb = nanobind;

void bind_anytime(nb::module_& m);
void bind_closure(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_exits(nb::module_& m);
void bind_grow(nb::module_& m);
void bind_margins(nb::module_& m);
void bind_orders(nb::module_& m);
void bind_testing(nb::module_& m);
void bind_votes(nb::module_& m);

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<nb::ro, nb::ndim<2>, nb::device::cpu>;
using IntMatrix = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<T, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> span_of(const Array<T>& array) {
  return {array.data(), array.shape(0)};
}

template <class T>
std::vector<T> vector_of(const Array<T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}

// A numpy array that owns the vector's memory; with n_columns, of two dimensions.
template <class T>
nb::object array_of(std::vector<T>&& values, std::size_t n_columns = 0) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
  if (n_columns == 0) return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size()}, owner));
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size() / n_columns, n_columns}, owner));
}

// A forest's arrays, kept alive, and the view of them that core/ works with.
struct ForestArrays {
  nb::object arrays;
  ForestView view;
};

template <class Runner>
RowsView view_of(const Runner& engine, const Rows& rows) {
  const bool is_float32 = rows.dtype() == nb::dtype<float>();
  if (!is_float32 && rows.dtype() != nb::dtype<double>()) {
    throw std::invalid_argument("rows must be float32 or float64");
  }
  if (rows.shape(1) != engine.n_features()) throw std::invalid_argument("rows have the wrong number of columns");
  return {rows.data(), rows.shape(0), rows.stride(0), rows.stride(1), is_float32};
}

// Runs `work`, in which a tree is walked by a row at most n_walks times, without the interpreter lock, unless it is too
// short to be worth letting go.
template <class Work>
void without_gil(std::size_t n_walks, Work work) {
  if (n_walks <= 1024) return work();
  nb::gil_scoped_release release;
  work();
}

// The result of work done without the interpreter lock.
template <class Work>
auto without_gil(Work work) {
  nb::gil_scoped_release release;
  return work();
}

// From work done without the interpreter lock: tells Python how far it is, and lets Ctrl-C stop it.
template <class... Numbers>
void report(const nb::object& progress, Numbers... numbers) {
  nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (!progress.is_none()) progress(numbers...);
}

inline void check_output(std::size_t got, std::size_t expected) {
  if (got != expected) throw std::invalid_argument("output array has the wrong size");
}

}  // namespace scurry
