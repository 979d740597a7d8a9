// The metadata of a model card: the YAML block that README.md begins with.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

/// The card of a folder, and in a pruned folder the card of the original model.
inline constexpr std::string_view kModelCard = "README.md", kOriginalCard = "ORIGINAL.md";

inline constexpr size_t kLargestCard = 16 << 20;  // bytes

/// A line of every card that pruning writes.
inline constexpr std::string_view kCardMark = "<!-- Written by headwise prune. -->";

/// A field with one value or with a list of them.
struct CardField {
  std::vector<std::string> values{};
  bool list = false;
  bool operator==(const CardField&) const = default;
};

/// The fields of the block that are text or lists of text, by name. Other fields (nested ones,
/// blocks of text, references) and values that are not printable are left out. Never throws: cards
/// are written by people.
std::map<std::string, CardField> read_card_metadata(std::string_view card);

/// "name: value" as YAML lines. Values are quoted, so that none is read as a number or as syntax.
std::string card_field(std::string_view name, const CardField& field);

}  // namespace headwise
