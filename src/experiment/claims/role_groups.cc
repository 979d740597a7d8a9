// Whether a model collapses without all heads of a role: against halves of them, and against random
// sets of equal size, and of equal size and equal summed importance.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "core/shuffle.h"
#include "experiment/claims/claims.h"
#include "experiment/subject.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/judge/category_groups.h"
#include "headwise/judge/judge.h"

namespace headwise {
namespace {

using nlohmann::json;
using Heads = std::vector<int64_t>;

constexpr int64_t kCandidates = 5000;  // random sets that matched ones are taken from

double sum_of(const std::vector<Estimate>& alone, const Heads& heads) {
  double sum = 0;
  for (const int64_t head : heads) sum += alone[head].value;
  return sum;
}

/// The sets of as many heads whose single costs sum up to nearly the same.
std::vector<Heads> matched_sets(const std::vector<Estimate>& alone, const Heads& heads,
                                int64_t draws, uint64_t seed) {
  const double wanted = sum_of(alone, heads);
  std::vector<std::pair<double, Heads>> candidates;
  for (int64_t c = 0; c < kCandidates; ++c) {
    Heads drawn = choose_below(std::ssize(heads), std::ssize(alone), Random(seed, c));
    if (drawn != heads) candidates.emplace_back(std::abs(sum_of(alone, drawn) - wanted), drawn);
  }
  std::ranges::sort(candidates);
  const auto repeated = std::ranges::unique(candidates);
  candidates.erase(repeated.begin(), repeated.end());
  candidates.resize(std::min<size_t>(candidates.size(), draws));
  std::vector<Heads> sets;
  for (auto& [distance, drawn] : candidates) sets.push_back(std::move(drawn));
  return sets;
}

json run(const json& settings, const Subject& subject, TrialContext& context) {
  const Model& model = context.model(subject.model);
  const EvaluationSet set = examples_of(subject, model, context);
  const int64_t draws = settings.at("draws"), halves = settings.at("halves");
  const Verdict verdict = judge(measure_heads(model, set, {"attention", "importance"}, context));
  HeadLosses losses(model, set);
  const double loss = losses.loss(context);
  const std::vector<Estimate> alone = losses.changes(each_head(model), context);
  json result = {{"scale", subject.task == LossTask::fidelity ? 1 : loss},
                 {"roles", json::array()}};
  for (NamedHeads& group : category_groups(verdict, model)) {
    Heads& heads = group.heads;
    std::ranges::sort(heads);
    if (std::ssize(heads) < 2 || std::ssize(heads) > std::ssize(alone) / 2) continue;
    const uint64_t seed = derived_seed(context.seed(), result["roles"].size(), 0, 0);
    std::vector<Heads> sets = {heads};
    for (int64_t d = 0; d < halves; ++d) {
      Heads half;
      for (const int64_t i :
           choose_below(std::ssize(heads) / 2, std::ssize(heads), Random(seed, d))) {
        half.push_back(heads[i]);
      }
      sets.push_back(std::move(half));
    }
    for (int64_t d = 0; d < draws; ++d) {
      sets.push_back(choose_below(std::ssize(heads), std::ssize(alone), Random(seed + 1, d)));
    }
    const std::vector<Heads> matched = matched_sets(alone, heads, draws, seed + 2);
    sets.insert(sets.end(), matched.begin(), matched.end());
    std::vector<double> sums;
    for (const Heads& drawn : matched) sums.push_back(sum_of(alone, drawn));
    result["roles"].push_back({{"role", group.name},
                               {"heads", heads},
                               {"sum", sum_of(alone, heads)},
                               {"matched_sum", mean_of(sums).value},
                               {"costs", to_json(losses.changes(sets, context)).at("value")}});
  }
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  return subject_trials(settings, [=](const Subject& subject, TrialContext& context) {
    return run(settings, subject, context);
  });
}

Finding judge_trials(const json& settings, const TrialResults& results) {
  const size_t draws = settings.at("draws"), halves = settings.at("halves");
  const double little = settings.at("little");
  Finding finding{.figure_name = "of the roles cost more than sets of equal size and importance"};
  finding.plot = {.title = "All heads of a role, beside as many of equal summed importance",
                  .x_label = "mean cost of matched sets, % of the loss",
                  .y_label = "cost of the role, %",
                  .y_marks = {0}};
  struct Role {
    double all, half;
  };
  std::vector<Role> roles;
  for (const Subject& subject : subjects_of(settings)) {
    const json& result = results.at(subject.name);
    const double scale = result.at("scale");
    PlotSeries& series = finding.plot.series.emplace_back(PlotSeries{.name = subject.name});
    for (const json& role : result.at("roles")) {
      const auto costs = role.at("costs").get<std::vector<double>>();
      const std::span<const double> half = std::span(costs).subspan(1, halves);
      const std::span<const double> matched = std::span(costs).subspan(1 + halves + draws);
      const Estimate matched_cost = mean_of(matched);
      const auto n = static_cast<double>(matched.size());
      // Of one more draw beside them.
      const Estimate above{.value = costs[0] - matched_cost.value,
                           .error = matched_cost.error * std::sqrt(n) * std::sqrt(1 + 1 / n),
                           .n = matched_cost.n};
      finding.family.push_back(
          {.name = fmt::format("{} {} ({} heads)", subject.name, role.at("role").get<std::string>(),
                               role.at("heads").size()),
           .figure = above.value / scale,
           .n = above.n,
           .p = above.p_above(0)});
      roles.push_back({costs[0] / scale, mean_of(half).value / scale});
      series.points.push_back({.x = 100 * matched_cost.value / scale, .y = 100 * costs[0] / scale});
    }
  }
  const std::vector<double> corrected = holm(finding.family);
  int64_t special = 0, collapses = 0, cheaper = 0;
  for (size_t r = 0; r < roles.size(); ++r) {
    special += corrected[r] < 0.05;
    collapses += corrected[r] < 0.05 && roles[r].half < little;
    cheaper += finding.family[r].figure < 0;
  }
  const auto n = std::ssize(roles);
  finding.n = n;
  if (n > 0) {
    finding.figure = static_cast<double>(special) / static_cast<double>(n);
    finding.interval = share_interval(special, n);
  }
  finding.why = fmt::format(
      "{} of {} roles cost more than sets of equal size and summed importance (corrected p < "
      "0.05); of these, half of the "
      "heads cost less than {:.2g} % in {}. {} roles cost less than the mean of such sets.",
      special, n, 100 * little, collapses, cheaper);
  if (n < 4) return finding;
  if (collapses == n) {
    finding.outcome = ClaimOutcome::confirmed;
  } else if (collapses == 0 && finding.interval->high < 0.5) {
    finding.outcome = ClaimOutcome::refuted;
  } else if (collapses > 0) {
    finding.outcome = ClaimOutcome::depends;
    finding.depends_on = "the role";
  }
  return finding;
}

}  // namespace

ExperimentKind role_groups() {
  return {.name = "role-groups", .trials = trials, .judge = judge_trials};
}

}  // namespace headwise
