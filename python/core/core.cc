// The Python module headwise._core: errors, threads, and what the other files bind.
#include "core.h"

#include <nanobind/stl/string.h>

#include <exception>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"

namespace nb = nanobind;

namespace headwise::python {
namespace {

/// headwise::Error becomes headwise.Error, a ValueError with the same fields.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const ErrorDetail& detail = error.detail();
    const nb::object type = nb::module_::import_("headwise.errors").attr("Error");
    const nb::object value =
        type(detail.what, detail.where, detail.got, detail.expected, detail.hint);
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The C++ part of headwise. Use the functions of headwise instead.";
  nb::register_exception_translator(translate);
  module.def("set_threads", &set_threads, nb::arg("count"),
             "Sets how many threads headwise uses; at first all cores.");
  module.def("threads", &threads, "How many threads headwise uses.");
  bind_arrow(module);
  bind_attention(module);
  bind_model(module);
  bind_pipeline(module);
}

}  // namespace headwise::python
