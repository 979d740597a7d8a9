// Strict JSON: a SAX handler that builds the value and checks on the way, and typed access.
#include "headwise/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "io/file.h"

namespace headwise {
namespace {

using Json = nlohmann::json;

constexpr size_t kDeepest = 64;

class StrictReader : public nlohmann::json_sax<Json> {
 public:
  explicit StrictReader(const std::string& where) : where_(where) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // JSON text has none

  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    auto& object = open_.back()->get_ref<Json::object_t&>();
    const auto [field, is_new] = object.try_emplace(std::move(name));
    if (!is_new) {
      throw Error({.what = "json: a key is there twice",
                   .where = place(),
                   .got = quote(field->first),
                   .expected = "every key once"});
    }
    keys_.back() = &field->first;
    slot_ = &field->second;
    return true;
  }

  bool parse_error(size_t byte, const std::string& token, const Json::exception& error) override {
    std::string_view reason = error.what();
    reason.remove_prefix(
        std::min(reason.find("] ") + 2, reason.size()));  // the number of the error
    if (reason.starts_with("parse error at ")) reason.remove_prefix(15);
    reason = reason.substr(0, std::min(reason.find("; last read: '"), size_t{200}));
    const size_t tail = std::min(token.size(), size_t{40});
    throw Error(
        {.what = "json: not valid",
         .where = fmt::format("{}, byte {}", where_, byte),
         .got = fmt::format("{}; near {}", reason, quote(token.substr(token.size() - tail))),
         .expected = "one JSON value in UTF-8"});
  }

 private:
  template <class T>
  bool put(T&& value) {
    *slot() = std::forward<T>(value);
    return true;
  }

  bool open(Json container) {
    if (open_.size() == kDeepest) {
      throw Error({.what = "json: nested too deeply",
                   .where = place(),
                   .got = fmt::format("more than {} levels", kDeepest),
                   .expected = fmt::format("at most {} levels", kDeepest)});
    }
    Json* place = slot();
    *place = std::move(container);
    open_.push_back(place);
    keys_.push_back(nullptr);
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  /// Where the next value goes. Pointers stay valid: an array grows only while nothing in it is
  /// open.
  Json* slot() {
    if (open_.empty()) return &root_;
    if (!open_.back()->is_array()) return slot_;
    auto& items = open_.back()->get_ref<Json::array_t&>();
    return &items.emplace_back();
  }

  std::string place() const {
    std::string path;
    for (size_t i = 0; i + 1 < open_.size(); ++i) {
      if (open_[i]->is_array()) {
        path += fmt::format("[{}]", open_[i]->size() - 1);
      } else {
        if (!path.empty()) path += '.';
        path += keys_[i]->substr(0, 80);
      }
    }
    return path.empty() ? where_ : fmt::format("{}: {}", where_, path);
  }

  const std::string& where_;
  Json root_;
  std::vector<Json*> open_;               // containers, outermost first
  std::vector<const std::string*> keys_;  // the current key of each, if it is an object
  Json* slot_ = nullptr;                  // the value of the last key
};

std::string shown(const Json& value) {
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return value.dump();
}

std::string range(int64_t least, int64_t most) {
  return most == INT64_MAX ? fmt::format("a whole number, at least {}", least)
                           : fmt::format("a whole number from {} to {}", least, most);
}

std::optional<int64_t> integer_of(const Json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return {};
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return {};
  const int64_t number = value.get<int64_t>();
  if (number < least || number > most) return {};
  return number;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  // To the parser a NUL is the end. No JSON has one: in strings it is written \u0000.
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    throw Error({.what = "json: not valid",
                 .where = fmt::format("{}, byte {}", where, nul + 1),
                 .got = fmt::format("a NUL, and {} bytes behind it", text.size() - nul - 1),
                 .expected = "one JSON value in UTF-8"});
  }
  StrictReader reader(where);
  Json::sax_parse(text.data(), text.data() + text.size(), &reader);
  return reader.take();
}

Json read_json(const std::filesystem::path& path) {
  return parse_json(read_file(path), path.string());
}

std::string quote(std::string_view text) {
  constexpr size_t kMost = 100;
  const auto replace = Json::error_handler_t::replace;
  return Json(text.substr(0, kMost)).dump(-1, ' ', false, replace) +
         (text.size() > kMost ? "…" : "");
}

JsonObject::JsonObject(const Json& value, std::string file, std::string path)
    : value_(&value), file_(std::move(file)), path_(std::move(path)) {
  if (value.is_object()) return;
  throw Error({.what = "json: not an object",
               .where = path_.empty() ? file_ : fmt::format("{}: {}", file_, path_),
               .got = shown(value),
               .expected = "an object"});
}

bool JsonObject::has(std::string_view name) const {
  const auto found = value_->find(name);
  return found != value_->end() && !found->is_null();
}

std::vector<std::string> JsonObject::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : value_->items()) names.push_back(name);
  return names;
}

const Json& JsonObject::value(std::string_view name) const {
  if (!has(name)) refuse(name, "json: a field is missing", "a value");
  return *value_->find(name);
}

int64_t JsonObject::integer(std::string_view name, int64_t least, int64_t most) const {
  const auto number = integer_of(value(name), least, most);
  if (!number) refuse(name, "json: a field is no such number", range(least, most));
  return *number;
}

double JsonObject::number(std::string_view name) const {
  if (!value(name).is_number()) refuse(name, "json: a field is no number", "a number");
  return value(name).get<double>();
}

bool JsonObject::boolean(std::string_view name) const {
  if (!value(name).is_boolean()) refuse(name, "json: a field is no boolean", "true or false");
  return value(name).get<bool>();
}

const std::string& JsonObject::text(std::string_view name) const {
  if (!value(name).is_string()) refuse(name, "json: a field is no string", "a string");
  return value(name).get_ref<const std::string&>();
}

JsonObject JsonObject::object(std::string_view name) const {
  return {value(name), file_, path_of(name)};
}

std::vector<int64_t> JsonObject::integers(std::string_view name, int64_t least,
                                          int64_t most) const {
  std::vector<int64_t> numbers;
  for (const Json& item : array(name, "an array of whole numbers")) {
    const auto number = integer_of(item, least, most);
    if (!number) {
      throw Error({.what = "json: an item of an array is no such number",
                   .where = fmt::format("{}[{}]", where(name), numbers.size()),
                   .got = shown(item),
                   .expected = range(least, most)});
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::string> JsonObject::texts(std::string_view name) const {
  std::vector<std::string> texts;
  for (const Json& item : array(name, "an array of strings")) {
    if (!item.is_string()) refuse(name, "json: an item is no string", "an array of strings");
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::vector<JsonObject> JsonObject::objects(std::string_view name) const {
  std::vector<JsonObject> objects;
  for (const Json& item : array(name, "an array of objects")) {
    objects.emplace_back(item, file_, fmt::format("{}[{}]", path_of(name), objects.size()));
  }
  return objects;
}

std::optional<int64_t> JsonObject::optional_integer(std::string_view name, int64_t least,
                                                    int64_t most) const {
  return has(name) ? std::optional(integer(name, least, most)) : std::nullopt;
}

std::optional<double> JsonObject::optional_number(std::string_view name) const {
  return has(name) ? std::optional(number(name)) : std::nullopt;
}

std::optional<bool> JsonObject::optional_boolean(std::string_view name) const {
  return has(name) ? std::optional(boolean(name)) : std::nullopt;
}

std::optional<std::string> JsonObject::optional_text(std::string_view name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::optional<JsonObject> JsonObject::optional_object(std::string_view name) const {
  return has(name) ? std::optional(object(name)) : std::nullopt;
}

void JsonObject::only(std::initializer_list<std::string_view> known) const {
  for (const std::string& name : names()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    refuse(name, "json: a field is not known", fmt::format("one of {}", fmt::join(known, ", ")));
  }
}

std::string JsonObject::where(std::string_view name) const {
  return fmt::format("{}: {}", file_, path_of(name));
}

void JsonObject::refuse(std::string_view name, std::string what, std::string expected,
                        std::string hint) const {
  const auto found = value_->find(name);
  throw Error({.what = std::move(what),
               .where = where(name),
               .got = found == value_->end() ? "nothing" : shown(*found),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

const Json& JsonObject::array(std::string_view name, const char* expected) const {
  if (!value(name).is_array()) refuse(name, "json: a field is no array", expected);
  return value(name);
}

std::string JsonObject::path_of(std::string_view name) const {
  const std::string_view shown = name.substr(0, 80);
  return path_.empty() ? std::string(shown) : fmt::format("{}.{}", path_, shown);
}

}  // namespace headwise
