// Numbers and documents as JSON text.
#include "headwise/io/json_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

namespace headwise {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Quoted and escaped.
std::string quoted(const std::string& text) {
  return OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// The fewest digits that are read back as the same number, which nlohmann-json does not always
/// find.
std::string digits(double number) {
  if (!std::isfinite(number)) return "null";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

class JsonWriter {
 public:
  explicit JsonWriter(int indent) : indent_(indent) {}

  void write(const OrderedJson& json) {
    if (json.is_structured()) {
      text += json.is_object() ? '{' : '[';
      ++depth_;
      for (auto item = json.begin(); item != json.end(); ++item) {
        if (item != json.begin()) text += ',';
        new_line();
        if (json.is_object()) text += quoted(item.key()) + (indent_ < 0 ? ":" : ": ");
        write(item.value());
      }
      --depth_;
      if (!json.empty()) new_line();
      text += json.is_object() ? '}' : ']';
    } else if (json.is_string()) {
      text += quoted(json.get_ref<const std::string&>());
    } else {
      text += json.is_number_float() ? digits(json.get<double>()) : json.dump();
    }
  }

  std::string text;

 private:
  void new_line() {
    if (indent_ < 0) return;
    text += '\n';
    text.append(static_cast<size_t>(indent_ * depth_), ' ');
  }

  int indent_, depth_ = 0;
};

std::string dump(const OrderedJson& json, int indent) {
  JsonWriter writer(indent);
  writer.write(json);
  return std::move(writer.text);
}

/// "a":1,"b":2 of {"a":1,"b":2}
std::string fields(const OrderedJson& object) {
  const std::string text = dump(object, -1);
  return text.substr(1, text.size() - 2);
}

/// Whether all digits of a whole number fit into a double.
bool is_whole(double number) {
  return std::abs(number) < 1e15 && std::trunc(number) == number &&
         !(number == 0 && std::signbit(number));
}

}  // namespace

std::string json_text(const OrderedJson& json, int indent) { return dump(json, indent) + "\n"; }

OrderedJson json_number(double number) {
  return is_whole(number) ? OrderedJson(static_cast<int64_t>(number)) : OrderedJson(number);
}

OrderedJson json_number(float number) {
  if (!std::isfinite(number) || is_whole(number)) return json_number(double{number});
  // The double nearest to the shortest digits of a float has the same shortest digits.
  char digits[32];
  const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  double shortest = 0;
  std::from_chars(digits, end, shortest);
  return shortest;
}

OrderedJson json_numbers(std::span<const float> numbers) {
  OrderedJson array = OrderedJson::array();
  for (const float number : numbers) array.push_back(json_number(number));
  return array;
}

OrderedJson json_rows(View<const float, 2> rows) {
  OrderedJson array = OrderedJson::array();
  for (int64_t row = 0; row < rows.extent(0); ++row) {
    OrderedJson& one = array.emplace_back(OrderedJson::array());
    for (int64_t column = 0; column < rows.extent(1); ++column) {
      one.push_back(json_number(rows(row, column)));
    }
  }
  return array;
}

void JsonList::add(const OrderedJson& item) {
  if (!items_.empty()) items_ += ',';
  items_ += dump(item, -1);
}

std::string JsonList::document(const OrderedJson& before, std::string_view name,
                               const OrderedJson& after) const {
  const std::string first = fields(before), last = fields(after);
  return fmt::format("{{{}{}{}:[{}]{}{}}}\n", first, first.empty() ? "" : ",",
                     dump(OrderedJson(name), -1), items_, last.empty() ? "" : ",", last);
}

}  // namespace headwise
