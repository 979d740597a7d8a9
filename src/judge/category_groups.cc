// Finds the heads of categories in a model.
#include "headwise/judge/category_groups.h"

#include <fmt/format.h>

namespace headwise {

std::vector<NamedHeads> category_groups(const Verdict& verdict, const Model& model) {
  std::vector<NamedHeads> groups;
  for (const Category& category : verdict.categories) {
    if (category.heads.empty()) continue;
    NamedHeads& group = groups.emplace_back(NamedHeads{.name = "role:" + category.role});
    for (const HeadIndex& head :
         model.find_heads(fmt::format("{}", fmt::join(category.heads, ",")))) {
      group.heads.push_back(model.attentions()[head.site].first + head.index);
    }
  }
  return groups;
}

}  // namespace headwise
