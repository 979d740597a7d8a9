// Strict JSON: what nlohmann-json takes in silently, such as repeated keys or deep nesting, is
// refused, and every message names the file and the field. Not in headwise.h, because it needs
// nlohmann-json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

/// Throws Error for anything but one valid JSON value in UTF-8, nested at most 64 deep, without
/// repeated keys. `where` names the text in messages.
nlohmann::json parse_json(std::string_view text, const std::string& where);
nlohmann::json read_json(const std::filesystem::path& path);

/// "text" for messages: escaped, cut when long.
std::string quote(std::string_view text);

/// An object and its place. Looks into the value, which must outlive it. Every getter throws Error
/// for a field that is missing, null or of another type; optional getters give nothing for one that
/// is missing or null.
class JsonObject {
 public:
  /// `file` and `path` are its place in messages: "config.json: rope_scaling".
  JsonObject(const nlohmann::json& value, std::string file, std::string path = "");

  bool has(std::string_view name) const;  // there, and not null
  std::vector<std::string> names() const;
  const nlohmann::json& value(std::string_view name) const;

  int64_t integer(std::string_view name, int64_t least = 0, int64_t most = INT64_MAX) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  JsonObject object(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name, int64_t least = 0,
                                int64_t most = INT64_MAX) const;
  std::vector<std::string> texts(std::string_view name) const;
  std::vector<JsonObject> objects(std::string_view name) const;

  std::optional<int64_t> optional_integer(std::string_view name, int64_t least = 0,
                                          int64_t most = INT64_MAX) const;
  std::optional<double> optional_number(std::string_view name) const;
  std::optional<bool> optional_boolean(std::string_view name) const;
  std::optional<std::string> optional_text(std::string_view name) const;
  std::optional<JsonObject> optional_object(std::string_view name) const;

  /// Throws Error for a field of any other name.
  void only(std::initializer_list<std::string_view> known) const;

  /// "config.json: rope_scaling.factor"
  std::string where(std::string_view name) const;

  /// Throws an Error about one of its fields; says what was got.
  [[noreturn]] void refuse(std::string_view name, std::string what, std::string expected,
                           std::string hint = "") const;

 private:
  const nlohmann::json& array(std::string_view name, const char* expected) const;
  std::string path_of(std::string_view name) const;

  const nlohmann::json* value_;
  std::string file_;
  std::string path_;
};

}  // namespace headwise
