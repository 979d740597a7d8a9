// JSON as text, written in one way everywhere. Not in headwise.h, because it needs nlohmann-json.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "headwise/core/view.h"

namespace headwise {

/// In one line, or indented by so many spaces; with a line end. Text that is not UTF-8 gets U+FFFD
/// in its place, numbers that are not finite become null.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// With as many digits as the number needs among those of its type; whole numbers without a point.
nlohmann::ordered_json json_number(float number);
nlohmann::ordered_json json_number(double number);
nlohmann::ordered_json json_numbers(std::span<const float> numbers);
nlohmann::ordered_json json_rows(View<const float, 2> rows);

/// A document with a long list, whose items are kept as text from the moment they are added.
class JsonList {
 public:
  void add(const nlohmann::ordered_json& item);

  /// {before…, "name": [items], after…}, with a line end. `before` and `after` are objects.
  std::string document(const nlohmann::ordered_json& before, std::string_view name,
                       const nlohmann::ordered_json& after) const;

 private:
  std::string items_;
};

}  // namespace headwise
