// ArrowTable: the batches of a table that any library gave away through Arrow's C interface, and their columns.
#pragma once

#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bind/bind.h"
#include "tables/column.h"

namespace scurry {

class ArrowTable {
 public:
  explicit ArrowTable(const nb::object& capsule) {
    auto* given = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
    if (given == nullptr) nb::raise_python_error();
    if (given->release == nullptr) throw std::invalid_argument("the stream was read before");
    ArrowArrayStream stream = *given;
    given->release = nullptr;  // this is how a stream is taken over
    const std::unique_ptr<ArrowArrayStream, void (*)(ArrowArrayStream*)> owner(&stream, [](ArrowArrayStream* s) {
      if (s->release != nullptr) s->release(s);
    });
    check(stream, stream.get_schema(&stream, &schema_));
    try {
      while (true) {
        ArrowArray batch{};
        check(stream, stream.get_next(&stream, &batch));
        if (batch.release == nullptr) break;
        batches_.push_back(batch);
        n_rows_ += static_cast<std::size_t>(batch.length);
      }
    } catch (...) {
      release();
      throw;
    }
    is_struct_ = std::string_view(schema_.format) == "+s";
  }
  ~ArrowTable() { release(); }
  ArrowTable(const ArrowTable&) = delete;
  ArrowTable& operator=(const ArrowTable&) = delete;

  std::size_t n_rows() const { return n_rows_; }

  bool is_table() const { return is_struct_; }

  nb::tuple names() const {
    nb::list names;
    for (std::int64_t i = 0; i < schema_.n_children; ++i) {
      const char* name = schema_.children[i]->name;
      names.append(nb::str(name == nullptr ? "" : name));
    }
    return nb::tuple(names);
  }

  // What each column holds, categories by their values: "numbers", "text" or "any".
  nb::tuple kinds() const {
    nb::list kinds;
    for (std::int64_t i = 0; i < schema_.n_children; ++i) {
      const ArrowSchema& column = *schema_.children[i];
      const ColumnKind kind = column_kind(column.dictionary != nullptr ? *column.dictionary : column);
      const bool any = kind == ColumnKind::kNull || kind == ColumnKind::kOther;
      kinds.append(any ? "any" : kind >= ColumnKind::kText ? "text" : "numbers");
    }
    return nb::tuple(kinds);
  }

  // The type of each column as Arrow writes it, such as "g" for float64.
  nb::tuple formats() const {
    nb::list formats;
    for (std::int64_t i = 0; i < schema_.n_children; ++i) formats.append(nb::str(schema_.children[i]->format));
    return nb::tuple(formats);
  }

  // Column `at`; the only one where there are no columns in this sense.
  template <class Out>
  Trouble read(std::size_t at, const Reading& reading, Out* out) const {
    if (is_struct_ && at >= static_cast<std::size_t>(schema_.n_children)) throw std::out_of_range("no such column");
    for (const ArrowArray& batch : batches_) {
      const auto n_rows = static_cast<std::size_t>(batch.length);
      Column dictionary;
      const Column column = is_struct_ ? column_of(*schema_.children[at], *batch.children[at],
                                                   static_cast<std::size_t>(batch.offset), n_rows, dictionary)
                                       : column_of(schema_, batch, 0, n_rows, dictionary);
      Trouble trouble = read_column(column, reading, out);
      if (trouble.problem != Problem::kNone) return trouble;
      out += n_rows;
    }
    return {};
  }

 private:
  static void check(ArrowArrayStream& stream, int code) {
    if (code == 0) return;
    const char* message = stream.get_last_error(&stream);
    throw std::invalid_argument(message == nullptr ? "the table cannot be read" : message);
  }

  void release() {
    for (ArrowArray& batch : batches_) batch.release(&batch);
    if (schema_.release != nullptr) schema_.release(&schema_);
  }

  ArrowSchema schema_{};
  std::vector<ArrowArray> batches_;
  std::size_t n_rows_ = 0;
  bool is_struct_ = false;
};

}  // namespace scurry
