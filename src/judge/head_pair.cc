// Compares, observes and judges two heads.
#include "headwise/judge/head_pair.h"

#include <fmt/format.h>

#include <utility>

#include "headwise/core/error.h"
#include "headwise/judge/judge.h"

namespace headwise {
namespace {

HeadIndex one_head(const Model& model, std::string_view name) {
  const std::vector<HeadIndex> heads = model.find_heads(name);
  if (heads.size() == 1) return heads.front();
  throw Error({.what = "this is not one head",
               .where = "compare",
               .got = fmt::format("{}, {} heads", name, heads.size()),
               .expected = "two heads, such as L7.H9 L7.H10"});
}

}  // namespace

HeadPair compare_pair(const Model& model, std::string_view a, std::string_view b,
                      const ObserveData& data, const HeadPairOptions& options) {
  const HeadIndex first = one_head(model, a), second = one_head(model, b);
  CompareHeadsOptions comparing{.gates = options.gates};
  if (options.progress) {
    comparing.progress = [&](int64_t done, int64_t total) {
      options.progress("texts", done, total);
    };
  }
  HeadPair pair{.comparison = compare_heads(model, first, second, data.corpus, comparing)};
  ObserveOptions observing{.measures = {"attention", "qk_rank", "ov_rank", "copying"},
                           .gates = options.gates,
                           .seed = options.seed,
                           .progress = options.progress};
  if (!options.verdict) {  // roles need words, too
    observing.measures = {"attention", "linguistic", "qk_rank", "ov_rank", "copying"};
  }
  pair.evidence = observe(model, data, observing);
  pair.verdict = options.verdict ? *options.verdict : judge(pair.evidence);
  return pair;
}

std::vector<std::string> named_roles(const Verdict& verdict, std::string_view head) {
  std::vector<std::string> names;
  for (const HeadVerdict& one : verdict.heads) {
    if (one.head != head) continue;
    for (const Role& role : one.roles) {
      names.push_back(role.detail.empty() ? role.role
                                          : fmt::format("{} ({})", role.role, role.detail));
      if (role.source == RoleSource::probes) names.back() += " on probes";
    }
  }
  return names;
}

}  // namespace headwise
