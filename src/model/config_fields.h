// The fields of a config.json, and which of them have been read: what is left over at the end is
// either known to be harmless or an error.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/json.h"
#include "headwise/model/config.h"

namespace headwise {

class ConfigFields {
 public:
  explicit ConfigFields(const JsonObject& object) : object_(object) {}

  bool has(std::string_view name) { return object_.has(use(name)); }
  bool is_null(std::string_view name);  // there, and null
  int64_t size(std::string_view name);  // at least 1
  int64_t size(std::string_view name, int64_t otherwise);
  int64_t size_at_most(std::string_view name, int64_t most);
  double number(std::string_view name, double otherwise);
  float epsilon(std::string_view name, std::optional<double> otherwise = {});  // above 0
  bool boolean(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  std::optional<int32_t> token(std::string_view name);
  std::vector<int32_t> tokens(std::string_view name);  // one, several or none
  Activation activation(std::string_view name, std::string_view otherwise);

  /// For fields whose other values are not supported.
  void must_be(std::string_view name, bool expected);
  void must_be(std::string_view name, const char* expected);

  const JsonObject& object() const { return object_; }
  std::string_view use(std::string_view name) {
    used_.emplace(name);
    return name;
  }

  /// Throws Error for a field that was not read and may change the arithmetic.
  void finish(const std::set<std::string>& ignored) const;

 private:
  const JsonObject& object_;
  std::set<std::string, std::less<>> used_;
};

/// The value of an activation function by its name in transformers, or nothing.
std::optional<Activation> find_activation(std::string_view name);

}  // namespace headwise
