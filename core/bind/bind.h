// The Python module _core: one function per file of bind/, and the array types they share.
//
// Only bind/ knows Python. Each file checks the shapes of arrays, calls the core without the interpreter lock where
// that pays, and turns results into arrays; errors are std::invalid_argument, which Python sees as ValueError.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <chrono>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "packed/packed_forest.h"
#include "runtime/forest_view.h"
#include "runtime/interrupt.h"

namespace scurry {

namespace nb = nanobind;

void bind_anytime(nb::module_& m);
void bind_cells(nb::module_& m);
void bind_closure(nb::module_& m);
void bind_combinations(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_exits(nb::module_& m);
void bind_grow(nb::module_& m);
void bind_margins(nb::module_& m);
void bind_one_row(nb::module_& m);
void bind_numbers(nb::module_& m);
void bind_orders(nb::module_& m);
void bind_packed(nb::module_& m);
void bind_prefix(nb::module_& m);
void bind_score_map(nb::module_& m);
void bind_tables(nb::module_& m);
void bind_testing(nb::module_& m);
void bind_votes(nb::module_& m);
void bind_watching(nb::module_& m);

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

// A numpy array that owns the memory of the vector; with n_columns, it has two dimensions.
template <class T>
nb::object array_of(std::vector<T>&& values, std::size_t n_columns = 0) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
  if (n_columns == 0) return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size()}, owner));
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), {owned->size() / n_columns, n_columns}, owner));
}

// A packed forest and the arrays that it reads, kept alive.
struct HeldPacked {
  nb::object arrays;
  PackedForest forest;
};

// The arrays of a forest, kept alive, and the view of them that the core works with.
struct ForestArrays {
  nb::object arrays, packed;
  ForestView view;
};

template <class Runner>
RowsView view_of(const Runner& engine, const Rows& rows) {
  const bool is_float32 = rows.dtype() == nb::dtype<float>(), is_bytes = rows.dtype() == nb::dtype<std::uint8_t>();
  if (!is_float32 && !is_bytes && rows.dtype() != nb::dtype<double>()) {
    throw std::invalid_argument("rows must be float32 or float64, or bytes of ByteRanks");
  }
  if (rows.shape(1) != engine.n_features()) throw std::invalid_argument("rows have the wrong number of columns");
  return {rows.data(), rows.shape(0), rows.stride(0), rows.stride(1), is_float32, is_bytes};
}

// Throws if Ctrl-C was pressed. Python's handlers need the interpreter lock, so it is not asked for too often.
inline void check_signals() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point last{};
  const Clock::time_point now = Clock::now();
  if (now - last < std::chrono::milliseconds(50)) return;
  last = now;
  nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// The thread in which Python handles signals; set when the module is imported.
inline unsigned long main_thread = 0;

// Gives up the interpreter lock, and lets Ctrl-C stop what the main thread runs meanwhile.
class WithoutGil {
 public:
  WithoutGil() = default;
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() { interrupt_check = before_; }

 private:
  void (*before_)() = std::exchange(
      interrupt_check, PyThread_get_thread_ident() == main_thread ? &check_signals : nullptr);
  nb::gil_scoped_release release_;
};

// Runs `work` without the interpreter lock, unless it is so short that releasing the lock does not pay: n_walks is how
// often a row walks a tree in it.
template <class Work>
void without_gil(std::size_t n_walks, Work work) {
  if (n_walks <= 1024) return work();
  const WithoutGil released;
  work();
}

// Returns the result of `work`, which runs without the interpreter lock.
template <class Work>
auto without_gil(Work work) {
  const WithoutGil released;
  return work();
}

// Reports progress to Python from work done without the interpreter lock, and lets Ctrl-C stop that work.
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
