// Puts a verdict together.
#include "headwise/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "headwise/core/error.h"
#include "judge/redundancy.h"
#include "judge/role_finder.h"
#include "judge/thresholds.h"
#include "observe/layers.h"
#include "observe/loss_table.h"

namespace headwise {
namespace {

std::optional<Measure> measure_of(const Measures& measures, const char* name) {
  const Measure* const found = measures.find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::optional<double> value_of(const Measures& measures, const char* name) {
  const Measure* const found = measures.find(name);
  return found == nullptr ? std::nullopt : std::optional(found->value);
}

Importance importance_of(const Measures& measures) {
  return {.gradient = value_of(measures, "gradient"),
          .entropy = value_of(measures, "entropy"),
          .confidence = value_of(measures, "confidence"),
          .ablation_zero = measure_of(measures, "ablation_zero"),
          .ablation_mean = measure_of(measures, "ablation_mean")};
}

/// What a head without any other role is: noise if the model does without it.
Role without_role(const HeadVerdict& head, double tolerance) {
  Role role{.role = can_be_removed(head) ? "noise" : "unclear"};
  if (head.importance.ablation_zero) {
    role.shown = *head.importance.ablation_zero;
    role.shown.baseline = tolerance;
  }
  return role;
}

/// What heads are ranked by; the largest first.
std::map<std::string, double> ranked_by(const Importance& importance) {
  std::map<std::string, double> numbers;
  if (importance.gradient) numbers["gradient"] = *importance.gradient;
  if (importance.ablation_zero) numbers["ablation_zero"] = importance.ablation_zero->value;
  if (importance.ablation_mean) numbers["ablation_mean"] = importance.ablation_mean->value;
  if (importance.entropy) numbers["entropy"] = -*importance.entropy;
  if (importance.confidence) numbers["confidence"] = *importance.confidence;
  return numbers;
}

void rank(Verdict& verdict) {
  std::map<std::string, std::vector<std::pair<double, std::string>>> ranked;
  std::map<std::pair<std::string, std::string>, std::array<std::vector<double>, 2>> both;
  for (const HeadVerdict& head : verdict.heads) {
    const auto numbers = ranked_by(head.importance);
    for (const auto& [name, value] : numbers) {
      ranked[name].emplace_back(value, head.head);
      for (const auto& [other, beside] : numbers) {
        if (name == other) continue;
        both[{name, other}][0].push_back(value);
        both[{name, other}][1].push_back(beside);
      }
    }
  }
  for (auto& [name, heads] : ranked) {
    std::ranges::stable_sort(heads, std::ranges::greater(), &std::pair<double, std::string>::first);
    for (auto& [value, head] : heads) verdict.rankings[name].push_back(std::move(head));
  }
  for (const auto& [names, values] : both) {
    const std::vector<uint32_t> once(values[0].size(), 1);
    const double rho = spearman(values[0], values[1], once);
    if (std::isfinite(rho)) verdict.correlation[names.first][names.second] = rho;
  }
}

/// What was measured of these very heads.
std::optional<Measures> measured_together(const Evidence& evidence, const std::string& name,
                                          const std::vector<std::string>& heads) {
  const std::set<std::string> wanted(heads.begin(), heads.end());
  for (const GroupEvidence& group : evidence.groups) {
    if (group.name == name &&
        std::set<std::string>(group.heads.begin(), group.heads.end()) == wanted) {
      return group.measures;
    }
  }
  return {};
}

/// Every role that heads have; before them groups of several roles.
std::vector<Category> categories_of(const Verdict& verdict, const Evidence& evidence) {
  std::vector<std::string> names;
  for (const RoleKind& kind : role_kinds()) {
    const auto in_group = std::ranges::count(role_kinds(), kind.group, &RoleKind::group);
    const std::string group(kind.group);
    if (group.empty() || in_group < 2 || std::ranges::find(names, group) != names.end()) continue;
    names.push_back(group);
  }
  for (const RoleKind& kind : role_kinds()) names.emplace_back(kind.name);
  std::vector<Category> categories;
  for (std::string& name : names) {
    std::vector<std::string> heads = heads_of_role(verdict, name);
    if (heads.empty()) continue;
    auto measured = measured_together(evidence, "role:" + name, heads);
    categories.push_back(
        {.role = std::move(name), .heads = std::move(heads), .measured = std::move(measured)});
  }
  return categories;
}

bool has_fixed_roles_only(const HeadVerdict& head) {
  return std::ranges::all_of(head.roles,
                             [](const Role& role) { return role_kind(role.role).fixed; });
}

/// The layer of `heads`.
class LayerJudge {
 public:
  LayerJudge(const Verdict& verdict, const Evidence& evidence)
      : verdict_(verdict), evidence_(evidence) {
    for (const Cluster& cluster : verdict.clusters) {
      spare_.insert(cluster.begin() + 1, cluster.end());
    }
  }

  LayerVerdict judged(std::span<const HeadVerdict> heads) const {
    LayerVerdict layer{.layer = layer_of(heads.front().head)};
    int64_t redundant = 0, could_go = 0, fixed = 0;
    for (const HeadVerdict& head : heads) {
      std::set<std::string> names;
      for (const Role& role : head.roles) names.insert(role.role);
      for (const std::string& name : names) ++layer.roles[name];
      redundant += !head.redundant_with.empty();
      could_go += can_be_removed(head) || spare_.contains(head.head);
      fixed += has_fixed_roles_only(head);
    }
    const auto count = static_cast<double>(heads.size());
    layer.redundant = static_cast<double>(redundant) / count;
    layer.importance = mean(heads, [](const Importance& importance) {
      return importance.ablation_zero ? std::optional(importance.ablation_zero->value)
                                      : std::nullopt;
    });
    if (!layer.importance) {
      layer.importance =
          mean(heads, [](const Importance& importance) { return importance.gradient; });
    }
    for (const GroupEvidence& group : evidence_.groups) {
      if (group.name == layer.layer && has_heads(group, heads)) {
        layer.ablated = measure_of(group.measures, "ablation_zero");
      }
    }
    if (static_cast<double>(could_go) > verdict_.thresholds.at("thin") * count) {
      layer.advice = "thin";
    } else if (static_cast<double>(fixed) > verdict_.thresholds.at("freeze") * count) {
      layer.advice = "freeze";
    }
    return layer;
  }

 private:
  static bool has_heads(const GroupEvidence& group, std::span<const HeadVerdict> heads) {
    return std::ranges::is_permutation(group.heads, heads, {}, {}, &HeadVerdict::head);
  }

  template <class Number>
  static std::optional<double> mean(std::span<const HeadVerdict> heads, const Number& number) {
    double sum = 0;
    int64_t n = 0;
    for (const HeadVerdict& head : heads) {
      const std::optional<double> value = number(head.importance);
      if (!value) continue;
      sum += *value;
      ++n;
    }
    return n == 0 ? std::nullopt : std::optional(sum / static_cast<double>(n));
  }

  const Verdict& verdict_;
  const Evidence& evidence_;
  std::set<std::string> spare_;  // heads of clusters that are not the representative
};

std::vector<LayerVerdict> layers_of(const Verdict& verdict, const Evidence& evidence) {
  const LayerJudge judge(verdict, evidence);
  std::vector<LayerVerdict> layers;
  const std::span<const HeadVerdict> heads = verdict.heads;
  for (size_t begin = 0; begin < heads.size();) {
    size_t end = begin + 1;
    while (end < heads.size() && layer_of(heads[end].head) == layer_of(heads[begin].head)) ++end;
    layers.push_back(judge.judged(heads.subspan(begin, end - begin)));
    begin = end;
  }
  return layers;
}

std::vector<std::string> moved(std::map<std::string, std::vector<std::string>>& lists,
                               const std::string& head) {
  const auto at = lists.find(head);
  return at == lists.end() ? std::vector<std::string>() : std::move(at->second);
}

/// A warning, if the texts have fewer tokens than roles need.
std::optional<std::string> few_tokens(const Evidence& evidence) {
  const auto text = evidence.corpora.find("text");
  if (text == evidence.corpora.end() || text->second.tokens >= kFewTokens) return {};
  return fmt::format(
      "the texts have {} tokens, and roles on fewer than {} may be those of a few sentences: "
      "observe more texts (--input)",
      text->second.tokens, kFewTokens);
}

}  // namespace

Verdict judge(const Evidence& evidence, const JudgeOptions& options) {
  Verdict verdict{.model = evidence.model, .thresholds = threshold_values(options.thresholds)};
  std::optional<LossTask> task;
  if (evidence.loss) {
    task = loss_task(evidence.loss->task);
    verdict.loss_task = evidence.loss->task;
    verdict.loss = evidence.loss->value;
    verdict.tolerance =
        tolerance_of(*task, evidence.loss->value,
                     options.tolerance ? *options.tolerance : tolerated_share(evidence));
  }
  Redundancy redundant = find_redundancy(evidence, {.js = verdict.thresholds.at("redundant_js"),
                                                    .cka = verdict.thresholds.at("redundant_cka"),
                                                    .synergy = verdict.tolerance});
  const RoleFinder finder(evidence, verdict.thresholds);
  for (const HeadEvidence& seen : evidence.heads) {
    HeadVerdict head{.head = seen.head,
                     .roles = finder.find(seen),
                     .importance = importance_of(seen.measures),
                     .redundant_with = moved(redundant.redundant, seen.head),
                     .backups = moved(redundant.backups, seen.head)};
    const auto& ablation = head.importance.ablation_zero;
    if (task && ablation && ablation->interval) {
      head.standing = standing(*ablation->interval, verdict.tolerance, *task);
    }
    if (head.roles.empty()) head.roles.push_back(without_role(head, verdict.tolerance));
    verdict.heads.push_back(std::move(head));
  }
  verdict.measured = finder.measured();
  if (auto warning = few_tokens(evidence)) verdict.warnings.push_back(*std::move(warning));
  verdict.clusters = std::move(redundant.clusters);
  rank(verdict);
  verdict.categories = categories_of(verdict, evidence);
  verdict.layers = layers_of(verdict, evidence);
  return verdict;
}

}  // namespace headwise
