// The measures of heads by what they are about, and which of them are asked for.
#pragma once

#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

struct MeasureGroup {
  std::string_view name{};     // "attention"
  std::string_view meaning{};  // "what a head attends to"
  std::vector<std::string_view> measures{};
};

/// attention, linguistic, similarity, importance. docs/measures.md says what each measure is.
std::span<const MeasureGroup> measure_groups();

/// "attention (entropy, …); linguistic (…); …"
std::string list_measures();

/// Some of the measures; all of them unless it says otherwise.
class MeasureSelection {
 public:
  MeasureSelection() = default;
  MeasureSelection(std::initializer_list<std::string> names);
  /// Names of groups and of single measures; none: all. Throws Error for other names.
  explicit MeasureSelection(std::span<const std::string> names);

  /// Whether any measure of the group is wanted.
  bool has_group(std::string_view group) const;
  /// Of "relation/det/to_head", that is "relation". What is in no group is always wanted.
  bool has(std::string_view measure) const;
  /// The names that were asked for; none: all.
  const std::vector<std::string>& names() const { return names_; }

 private:
  bool all_ = true;
  std::vector<std::string> names_;
  std::set<std::string, std::less<>> measures_;
};

}  // namespace headwise
