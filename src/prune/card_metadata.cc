// Reads the part of YAML that model cards use, and writes values that no reader takes for syntax.
#include "prune/card_metadata.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/unicode.h"

namespace headwise {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr size_t kLongestValue = 256;  // bytes

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

/// Takes the next line off the text, without its end.
std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool is_printable(std::string_view value) {
  if (value.empty() || value.size() > kLongestValue || !text::is_valid_utf8(value)) return false;
  for (size_t at = 0; at < value.size();) {
    const char32_t c = text::next_char(value, at);
    const bool ends_line = c < 0x20 || c == 0x2028 || c == 0x2029;
    const bool is_character = (c & 0xFFFE) != 0xFFFE;
    if (ends_line || !is_character || (text::flags_of(c) & text::kControl) != 0) return false;
  }
  return true;
}

std::optional<std::string> take_single_quoted(std::string_view& text) {
  std::string value;
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '\'' && !text.substr(at + 1).starts_with('\'')) {
      text.remove_prefix(at + 1);
      return value;
    }
    if (text[at] == '\'') ++at;  // two stand for one
    value += text[at];
  }
  return std::nullopt;
}

/// With the escapes that YAML shares with JSON.
std::optional<std::string> take_double_quoted(std::string_view& text) {
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      const auto json = nlohmann::json::parse(text.substr(0, at + 1), nullptr, false);
      text.remove_prefix(at + 1);
      if (json.is_string()) return json.get<std::string>();
      return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::string> take_plain(std::string_view& text, std::string_view ends) {
  const size_t end = std::min(text.find_first_of(ends), text.find(" #"));
  const std::string_view value = trimmed(text.substr(0, end));
  text.remove_prefix(std::min(end, text.size()));
  constexpr std::string_view kSyntax = "-?:,[]{}#&*!|>%@`";
  if (value.empty() || kSyntax.find(value.front()) != value.npos || value == "~" ||
      value == "null" || value.ends_with(':') || value.find(": ") != value.npos) {
    return std::nullopt;
  }
  return std::string(value);
}

/// Takes a value off the text: quoted, or plain up to a comment or to one of `ends`.
std::optional<std::string> take_value(std::string_view& text, std::string_view ends = "") {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (text.starts_with('\'')) return take_single_quoted(text);
  if (text.starts_with('"')) return take_double_quoted(text);
  return take_plain(text, ends);
}

/// Whether nothing but a comment is left of a line.
bool is_done(std::string_view rest) {
  rest = trimmed(rest);
  return rest.empty() || rest.starts_with('#');
}

void add(const std::optional<std::string>& value, CardField& field) {
  if (value && is_printable(*value)) field.values.push_back(*value);
}

/// "[a, b]"
bool read_flow_list(std::string_view text, CardField& field) {
  field.list = true;
  text.remove_prefix(1);
  if (trimmed(text).starts_with(']')) return is_done(trimmed(text).substr(1));
  while (true) {
    add(take_value(text, ",]"), field);
    text = trimmed(text);
    if (text.empty() || (text.front() != ',' && text.front() != ']')) return false;
    const bool last = text.front() == ']';
    text.remove_prefix(1);
    if (last) return is_done(text);
  }
}

/// One value after "- " on each line.
bool read_block_list(const std::vector<std::string_view>& lines, CardField& field) {
  field.list = true;
  for (std::string_view line : lines) {
    line = trimmed(line);
    if (is_done(line)) continue;
    if (!line.starts_with("- ")) return false;
    line.remove_prefix(2);
    const std::optional<std::string> value = take_value(line);
    if (value && !is_done(line)) return false;
    add(value, field);
  }
  return true;
}

/// What stands behind "name:" and on the lines that belong to it.
bool read_field(std::string_view text, const std::vector<std::string_view>& more,
                CardField& field) {
  text = trimmed(text);
  if (is_done(text)) return read_block_list(more, field);
  if (!std::ranges::all_of(more, is_done)) return false;  // goes on, or is nested
  if (text.starts_with('[')) return read_flow_list(text, field);
  add(take_value(text), field);
  return is_done(text);
}

/// The lines of the block; none if it does not end.
std::vector<std::string_view> block_lines(std::string_view card) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF", kFence = "---";
  if (card.starts_with(kByteOrderMark)) card.remove_prefix(kByteOrderMark.size());
  if (take_line(card) != kFence) return {};
  std::vector<std::string_view> lines;
  while (!card.empty()) {
    const std::string_view line = take_line(card);
    if (line == kFence) return lines;
    lines.push_back(line);
  }
  return {};
}

/// "name" of a line "name: …", which begins a field.
std::string_view name_of_line(std::string_view line) {
  constexpr std::string_view kNames =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const size_t colon = line.find_first_not_of(kNames);
  if (colon == line.npos || colon == 0 || line[colon] != ':' || line.front() == '-') return "";
  const std::string_view rest = line.substr(colon + 1);
  return rest.empty() || rest.front() == ' ' ? line.substr(0, colon) : "";
}

}  // namespace

std::map<std::string, CardField> read_card_metadata(std::string_view card) {
  std::map<std::string, CardField> fields;
  const std::vector<std::string_view> lines = block_lines(card);
  for (size_t at = 0; at < lines.size();) {
    const std::string_view line = lines[at++], name = name_of_line(line);
    std::vector<std::string_view> more;
    while (at < lines.size() && name_of_line(lines[at]).empty()) more.push_back(lines[at++]);
    CardField field;
    if (name.empty() || !read_field(line.substr(name.size() + 1), more, field)) continue;
    if (!field.values.empty()) fields[std::string(name)] = field;
  }
  return fields;
}

std::string card_field(std::string_view name, const CardField& field) {
  const auto quoted = [](const std::string& value) { return nlohmann::json(value).dump(); };
  std::string text = std::string(name) + ":";
  if (!field.list) return text + " " + quoted(field.values.front()) + "\n";
  text += "\n";
  for (const std::string& value : field.values) text += "- " + quoted(value) + "\n";
  return text;
}

}  // namespace headwise
