// The exception for bad input: what is wrong, where, the value, the expected value, and what to do.
#pragma once

#include <stdexcept>
#include <string>

namespace headwise {

struct ErrorDetail {
  std::string what{};      // one sentence, starting with the name of the op or the file's role
  std::string where{};     // file, tensor, field or argument; may be empty
  std::string got{};       // may be empty
  std::string expected{};  // may be empty
  std::string hint{};      // what the user can do about it; may be empty
};

class Error : public std::runtime_error {
 public:
  explicit Error(ErrorDetail detail);
  const ErrorDetail& detail() const noexcept { return detail_; }

 private:
  ErrorDetail detail_;
};

}  // namespace headwise
