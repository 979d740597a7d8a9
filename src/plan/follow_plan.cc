// Compares a plan with a model, and prunes.
#include "headwise/plan/follow_plan.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "headwise/core/error.h"

namespace headwise {

void check_fits(const Plan& plan, const Model& model, const std::string& where) {
  if (plan.keep.empty()) return;
  std::set<std::string> named(plan.keep.begin(), plan.keep.end()), there;
  named.insert(plan.drop.begin(), plan.drop.end());
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t i = 0; i < std::ssize(site.heads); ++i) there.insert(site.head_name(i));
  }
  if (named == there) return;
  throw Error({.what = "the plan is of another model",
               .where = where,
               .got = fmt::format("{} heads, not those of the model", named.size()),
               .expected = fmt::format("the {} heads of {}", there.size(), model.name()),
               .hint = "headwise plan makes one from a verdict of this model"});
}

PrunedModel prune(const Model& model, const Plan& plan, PruneOptions options) {
  check_fits(plan, model);
  options.order = plan.order;
  return prune(model, plan.drop, options);
}

}  // namespace headwise
