// How JSON is written.
#include "json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace headwise::program {
namespace {

/// Quoted and escaped; what is no UTF-8 becomes U+FFFD.
std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void JsonWriter::separate() {
  if (!fresh_) text_ += ',';
  fresh_ = false;
}

void JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  fresh_ = true;
}

void JsonWriter::close(char bracket) {
  text_ += bracket;
  fresh_ = false;
}

void JsonWriter::word(std::string_view text) {
  separate();
  text_ += text;
}

void JsonWriter::key(std::string_view name) {
  separate();
  text_ += quoted(name);
  text_ += ':';
  fresh_ = true;
}

void JsonWriter::value(std::string_view text) { word(quoted(text)); }

void JsonWriter::value(float number) {
  if (!std::isfinite(number)) return null();
  separate();
  fmt::format_to(std::back_inserter(text_), "{}", number);
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  fmt::format_to(std::back_inserter(text_), "{}", number);
}

void JsonWriter::matrix(View<const float, 2> rows) {
  begin_array();
  for (int64_t row = 0; row < rows.extent(0); ++row) {
    begin_array();
    for (int64_t column = 0; column < rows.extent(1); ++column) value(rows(row, column));
    end_array();
  }
  end_array();
}

std::string JsonWriter::take() {
  text_ += '\n';
  fresh_ = true;
  return std::exchange(text_, {});
}

}  // namespace headwise::program
