// Tables in the C stream interface of Arrow, which polars, DuckDB, pandas and pyarrow read.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.h"
#include "core.h"
#include "headwise/core/error.h"

namespace nb = nanobind;
using namespace nanobind::literals;

// The ABI of Arrow: these structs and their names are those of its specification.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema*);
  int (*get_next)(ArrowArrayStream*, ArrowArray*);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

namespace headwise::python {
namespace {

constexpr int64_t kNullable = 2;  // a flag of ArrowSchema
constexpr std::string_view kNumber = "g",
                           kText = "U";  // formats: float64; text with 64-bit offsets

/// A column as Arrow stores it: a bit for each row that is there, then numbers, or ends and bytes.
struct Column {
  std::string name{}, format{};
  std::vector<uint8_t> present{};
  int64_t missing = 0;
  std::vector<double> numbers{};
  std::vector<int64_t> ends = {0};
  std::string bytes{};
  int64_t rows = 0;

  void add_presence(bool there) {
    if (rows % 8 == 0) present.push_back(0);
    present.back() |= static_cast<uint8_t>(there << (rows % 8));
    missing += !there;
    ++rows;
  }
};

struct Table {
  std::vector<Column> columns{};
  int64_t rows = 0;
};
using SharedTable = std::shared_ptr<const Table>;

Column numbers_column(std::string name, const List<const double>& values) {
  Column column{.name = std::move(name), .format = std::string(kNumber)};
  column.numbers.assign(values.data(), values.data() + values.shape(0));
  for (const double value : column.numbers) column.add_presence(!std::isnan(value));
  return column;
}

Column texts_column(std::string name, const std::vector<std::optional<std::string>>& texts) {
  Column column{.name = std::move(name), .format = std::string(kText)};
  for (const std::optional<std::string>& text : texts) {
    column.add_presence(text.has_value());
    column.bytes += text.value_or("");
    column.ends.push_back(static_cast<int64_t>(column.bytes.size()));
  }
  return column;
}

/// What a schema or an array owns: its part of the table, and its children, each of which a reader
/// may move away and release on its own.
template <class Struct>
struct Owned {
  SharedTable table{};
  std::vector<Struct> parts{};
  std::vector<Struct*> children{};
  std::vector<const void*> buffers{};
};

template <class Struct>
void release(Struct* self) {
  for (int64_t i = 0; i < self->n_children; ++i) {
    Struct* const child = self->children[i];
    if (child->release != nullptr) child->release(child);
  }
  delete static_cast<Owned<Struct>*>(self->private_data);
  self->release = nullptr;
}

/// Makes `self` own the table and as many children as `parts`; gives what it owns.
template <class Struct>
Owned<Struct>& own(Struct* self, SharedTable table, size_t parts) {
  auto* const owned =
      new Owned<Struct>{.table = std::move(table), .parts = std::vector<Struct>(parts)};
  for (Struct& part : owned->parts) owned->children.push_back(&part);
  *self = Struct{};
  self->n_children = static_cast<int64_t>(parts);
  self->children = owned->children.data();
  self->release = &release<Struct>;
  self->private_data = owned;
  return *owned;
}

void write_schema(const SharedTable& table, ArrowSchema* out) {
  Owned<ArrowSchema>& whole = own(out, table, table->columns.size());
  out->format = "+s";
  out->name = "";
  for (size_t i = 0; i < whole.parts.size(); ++i) {
    own(&whole.parts[i], table, 0);
    whole.parts[i].format = table->columns[i].format.c_str();
    whole.parts[i].name = table->columns[i].name.c_str();
    whole.parts[i].flags = kNullable;
  }
}

void write_array(ArrowArray* out, Owned<ArrowArray>& owned, int64_t rows, int64_t missing,
                 std::vector<const void*> buffers) {
  owned.buffers = std::move(buffers);
  out->length = rows;
  out->null_count = missing;
  out->n_buffers = static_cast<int64_t>(owned.buffers.size());
  out->buffers = owned.buffers.data();
}

void write_rows(const SharedTable& table, ArrowArray* out) {
  Owned<ArrowArray>& whole = own(out, table, table->columns.size());
  write_array(out, whole, table->rows, 0, {nullptr});
  for (size_t i = 0; i < whole.parts.size(); ++i) {
    const Column& column = table->columns[i];
    const std::vector<const void*> buffers =
        column.format == kText
            ? std::vector<const void*>{column.present.data(), column.ends.data(),
                                       column.bytes.data()}
            : std::vector<const void*>{column.present.data(), column.numbers.data()};
    write_array(&whole.parts[i], own(&whole.parts[i], table, 0), table->rows, column.missing,
                buffers);
  }
}

/// A table that is read once, in one piece.
struct Reading {
  SharedTable table{};
  bool is_read = false;
};

Reading& reading(ArrowArrayStream* stream) { return *static_cast<Reading*>(stream->private_data); }

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  try {
    write_schema(reading(stream).table, out);
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  try {
    *out = ArrowArray{};  // the end of the stream
    if (!reading(stream).is_read) write_rows(reading(stream).table, out);
    reading(stream).is_read = true;
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

void release_stream(ArrowArrayStream* stream) {
  delete static_cast<Reading*>(stream->private_data);
  stream->release = nullptr;
}

/// Columns of numbers, in which NaN is null, and of texts or None.
nb::object arrow_stream(const nb::typed<nb::dict, nb::str, nb::object>& columns) {
  auto table = std::make_shared<Table>();
  for (const auto& [name, values] : columns) {
    Column column;
    if (List<const double> numbers; nb::try_cast(values, numbers)) {
      column = numbers_column(nb::cast<std::string>(name), numbers);
    } else {
      column = texts_column(nb::cast<std::string>(name),
                            nb::cast<std::vector<std::optional<std::string>>>(values));
    }
    table->rows = column.rows;
    table->columns.push_back(std::move(column));
  }
  for (const Column& column : table->columns) {
    if (column.rows != table->rows) throw Error({.what = "a table's columns differ in length"});
  }
  auto* const stream = new ArrowArrayStream{
      .get_schema = get_schema,
      .get_next = get_next,
      .get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; },
      .release = release_stream,
      .private_data = new Reading{.table = std::move(table)}};
  return nb::capsule(stream, "arrow_array_stream", [](void* p) noexcept {
    auto* const kept = static_cast<ArrowArrayStream*>(p);
    if (kept->release != nullptr) kept->release(kept);
    delete kept;
  });
}

}  // namespace

void bind_arrow(nb::module_& module) {
  module.def(
      "arrow_stream", &arrow_stream, "columns"_a,
      "A PyCapsule of an ArrowArrayStream with columns of numbers, in which NaN is null, and "
      "of texts or None.");
}

}  // namespace headwise::python
