// Parses groups of heads, and checks what they are added to.
#include "observe_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "command.h"
#include "headwise/judge/category_groups.h"
#include "headwise/judge/verdict.h"

namespace headwise::program {

std::vector<NamedHeads> named_groups(const std::vector<std::string>& groups, const Model& model) {
  std::vector<NamedHeads> named;
  for (const std::string& group : groups) {
    const size_t equals = std::min(group.find('='), group.size());
    const std::string name = group.substr(0, equals);
    if (name.empty() || std::ranges::find(named, name, &NamedHeads::name) != named.end()) {
      usage_error(fmt::format("--group {}: expected NAME=HEADS, each name once", group));
    }
    if (name.starts_with("role:") ||
        std::ranges::find(model.attentions(), name, &AttentionSite::name) !=
            model.attentions().end()) {
      usage_error(fmt::format(
          "--group {}: --ablate layers and --verdict give such names; choose another: mine=HEADS",
          group));
    }
    NamedHeads& to = named.emplace_back(NamedHeads{.name = name});
    const bool has_name = equals < group.size();
    for (const HeadIndex& head : model.find_heads(has_name ? group.substr(equals + 1) : name)) {
      to.heads.push_back(model.attentions()[head.site].first + head.index);
    }
  }
  return named;
}

std::vector<NamedHeads> groups_of_verdict(const std::string& file, const Model& model) {
  const Verdict verdict = read_verdict(file);
  check_fits(verdict, model, file, throw_if_interrupted);
  return category_groups(verdict, model);
}

}  // namespace headwise::program
