// Writes one JSON document into a string, numbers with as many digits as they need.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/core/view.h"

namespace headwise::program {

class JsonWriter {
 public:
  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(bool truth) { word(truth ? "true" : "false"); }
  void value(float number);
  void value(double number);
  void value(std::integral auto number) { word(std::to_string(number)); }
  void null() { word("null"); }  // also what is not finite: JSON has no other word

  template <class T>
  void value(const std::vector<T>& values) {
    array(std::span<const T>(values));
  }
  template <class T>
  void array(std::span<const T> values) {
    begin_array();
    for (const T& element : values) value(element);
    end_array();
  }
  void matrix(View<const float, 2> rows);

  /// A value that is JSON already.
  void raw(std::string_view json) { word(json); }

  template <class T>
  void field(std::string_view name, const T& content) {
    key(name);
    value(content);
  }

  /// The document, with a line end.
  std::string take();

 private:
  void open(char bracket);
  void close(char bracket);
  void word(std::string_view text);
  void separate();

  std::string text_;
  bool fresh_ = true;  // nothing to be separated from
};

}  // namespace headwise::program
