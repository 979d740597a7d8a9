// What the files of the Python module share.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

namespace headwise::python {

/// Asks Python about Ctrl-C a few times a second, from the thread that computes.
class Signals {
 public:
  /// Throws what the handler of a signal raised. The GIL need not be held.
  void check() {
    const auto now = std::chrono::steady_clock::now();
    if (now - checked_ < std::chrono::milliseconds(100)) return;
    checked_ = now;
    const nanobind::gil_scoped_acquire held;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }

 private:
  std::chrono::steady_clock::time_point checked_{};
};

void bind_arrow(nanobind::module_& module);
void bind_attention(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_pipeline(nanobind::module_& module);

}  // namespace headwise::python
