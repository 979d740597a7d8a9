// The large values of a tokenizer.json, vocabulary and merges, read without a tree of their JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "text/vocabulary.h"

namespace headwise::text {

/// A file's text in three: the texts of "vocab" and "merges" in "model", and the rest, where empty
/// ones stand for them. A text that is no such JSON is left whole.
struct LargeValues {
  std::string rest{};
  std::string_view vocabulary{};  // empty if it is not there
  std::string_view merges{};
};
LargeValues take_large_values(std::string_view file);

// Each throws Error for anything but valid JSON of its form; `where` names the value in messages.

/// {"token": id, …}, every token once.
Vocabulary read_vocabulary(std::string_view json, const std::string& where);

/// [["token", score], …]
void for_each_score(std::string_view json, const std::string& where,
                    const std::function<void(std::string_view token, double score)>& found);

/// ["left right", …] or [["left", "right"], …]
void for_each_merge(
    std::string_view json, const std::string& where,
    const std::function<void(std::string_view left, std::string_view right)>& found);

}  // namespace headwise::text
