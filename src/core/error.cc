// How an Error reads: one line each for what, where, got, expected and hint, the empty ones left
// out.
#include "headwise/core/error.h"

#include <utility>

namespace headwise {
namespace {

std::string message(const ErrorDetail& detail) {
  std::string text = detail.what;
  const auto line = [&text](const char* label, const std::string& value) {
    if (!value.empty()) text += std::string("\n  ") + label + ": " + value;
  };
  line("where", detail.where);
  line("got", detail.got);
  line("expected", detail.expected);
  line("hint", detail.hint);
  return text;
}

}  // namespace

Error::Error(ErrorDetail detail)
    : std::runtime_error(message(detail)), detail_(std::move(detail)) {}

}  // namespace headwise
