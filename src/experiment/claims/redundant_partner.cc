// Whether a head that resembles another one of its layer costs less to remove than its gradient
// says, and whether such pairs back each other up.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/subject.h"
#include "headwise/judge/judge.h"
#include "headwise/plan/support.h"

namespace headwise {
namespace {

using nlohmann::json;

json run(const Subject& subject, TrialContext& context) {
  const Model& model = context.model(subject.model);
  const EvaluationSet set = examples_of(subject, model, context);
  const Evidence evidence = measure_heads(model, set, {"js", "output_cka", "gradient"}, context);
  const Verdict verdict = judge(evidence);
  HeadLosses losses(model, set);
  const double loss = losses.loss(context);
  json result = {{"scale", subject.task == LossTask::fidelity ? 1 : loss},
                 {"gradient", values_of(evidence, "gradient")},
                 {"alone", to_json(losses.changes(each_head(model), context))}};
  for (const HeadVerdict& head : verdict.heads) {
    result["partners"].push_back(std::ssize(head.redundant_with));
  }
  std::vector<std::vector<int64_t>> pairs;
  for (const AttentionSite& site : model.attentions()) {
    const PairMatrix& js = evidence.pairs.at("js").at(site.name);
    const PairMatrix& cka = evidence.pairs.at("output_cka").at(site.name);
    for (int64_t a = 0; a < std::ssize(site.heads); ++a) {
      for (int64_t b = a + 1; b < std::ssize(site.heads); ++b) {
        pairs.push_back({site.first + a, site.first + b});
        result["pairs"].push_back({site.first + a, site.first + b, js.at(a, b), cka.at(a, b)});
      }
    }
  }
  result["together"] = to_json(losses.changes(pairs, context)).at("value");
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) { return subject_trials(settings, run); }

Finding judge_trials(const json& settings, const TrialResults& results) {
  const double matters = settings.at("matters");
  Finding finding{.figure_name =
                      "mean rank correlation of a head's resemblance to its partner and its "
                      "cost for its gradient"};
  finding.plot = {.title = "Heads that resemble another one: cost for their gradient, and synergy",
                  .y_label = "rank correlation with resemblance",
                  .series = {{.name = "cost / gradient (claimed: below 0)"},
                             {.name = "synergy of pairs (claimed: above 0)"}},
                  .y_marks = {0}};
  std::vector<double> values;
  int64_t cheaper = 0, not_cheaper = 0, backed = 0, partners = 0, heads = 0;
  for (const Subject& subject : subjects_of(settings)) {
    const json& result = results.at(subject.name);
    const auto gradient = result.at("gradient").get<std::vector<double>>();
    const std::vector<Estimate> alone = estimates_from(result.at("alone"));
    std::vector<double> nearest(alone.size()), ratio, resemblance, synergy;
    const auto together = result.at("together").get<std::vector<double>>();
    for (size_t i = 0; i < together.size(); ++i) {
      const json& pair = result.at("pairs").at(i);
      if (pair.at(3).is_null()) continue;
      const size_t a = pair.at(0), b = pair.at(1);
      const double cka = pair.at(3);
      nearest[a] = std::max(nearest[a], cka);
      nearest[b] = std::max(nearest[b], cka);
      resemblance.push_back(cka);
      synergy.push_back(together[i] - alone[a].value - alone[b].value);
    }
    for (size_t h = 0; h < alone.size(); ++h) ratio.push_back(alone[h].value / gradient[h]);
    for (const json& count : result.at("partners")) partners += count > 0;
    heads += std::ssize(alone);
    const auto cost = rank_correlation(nearest, ratio),
               pairs = rank_correlation(resemblance, synergy);
    if (!cost || !pairs) continue;
    values.push_back(cost->value);
    not_cheaper += cost->interval.low > -matters;
    const auto x = static_cast<double>(finding.plot.x_names.size());
    finding.plot.x_names.push_back(subject.model);
    for (size_t which : {0, 1}) {
      const RankCorrelation& seen = which == 0 ? *cost : *pairs;
      finding.family.push_back(
          {.name = fmt::format("{}: {}", subject.model,
                               which == 0 ? "cost for the gradient" : "synergy"),
           .figure = seen.value,
           .interval = seen.interval,
           .n = which == 0 ? std::ssize(ratio) : std::ssize(synergy),
           .p = seen.p});
      finding.plot.series[which].points.push_back({.x = x + 0.1 * static_cast<double>(which),
                                                   .y = seen.value,
                                                   .low = seen.interval.low,
                                                   .high = seen.interval.high});
    }
  }
  const std::vector<double> corrected = holm(finding.family);
  for (size_t t = 0; t < corrected.size(); ++t) {
    if (corrected[t] >= 0.05) continue;
    if (t % 2 == 0) cheaper += finding.family[t].figure < 0;
    if (t % 2 == 1) backed += finding.family[t].figure > 0;
  }
  const Estimate mean = mean_of(values);
  finding.figure = mean.value;
  finding.interval = mean.interval();
  finding.n = mean.n;
  finding.why = fmt::format(
      "{} of {} heads have a redundant partner by the thresholds of judge. Heads that resemble "
      "another one cost less for their gradient in {} of {} models (corrected p < 0.05); in {} the "
      "95 % interval of the correlation stays above -{:.2g}. Pairs that resemble each other back "
      "each other up in {}.",
      partners, heads, cheaper, mean.n, not_cheaper, matters, backed);
  decide_over_models(cheaper, not_cheaper, mean.n, finding);
  return finding;
}

}  // namespace

ExperimentKind redundant_partner() {
  return {.name = "redundant-partner", .trials = trials, .judge = judge_trials};
}

}  // namespace headwise
