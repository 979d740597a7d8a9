// Finds paths in texts.
#include "report/without_paths.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace headwise {
namespace {

bool is_path(std::string_view word, bool quoted) {
  if (word.find("://") != std::string_view::npos) return false;
  if (word.find_first_not_of('/') == std::string_view::npos) return false;
  for (const char* start : {"/", "./", "../", "~/"}) {
    if (word.starts_with(start)) return true;
  }
  return !quoted && std::ranges::count(word, '/') >= 2;
}

std::string_view file_of(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::string without_paths(std::string_view text) {
  // Quotes of the shell hold a word together; = ends the name of an option.
  constexpr std::string_view kEnds = " \t\n\"'=,;";
  std::string out;
  bool quoted = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(quoted ? "'" : kEnds, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    out += is_path(word, quoted) ? file_of(word) : word;
    if (end < text.size()) out += text[end];
    // An apostrophe within a word opens nothing.
    quoted = !quoted && word.empty() && end < text.size() && text[end] == '\'' &&
             text.find('\'', end + 1) != std::string_view::npos;
    begin = end + 1;
  }
  return out;
}

void remove_paths(nlohmann::json& value) {
  if (value.is_string()) {
    value = without_paths(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (nlohmann::json& part : value) remove_paths(part);
  }
}

}  // namespace headwise
