// Whether the heads of lower layers are more replaceable.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/subject.h"
#include "headwise/plan/support.h"

namespace headwise {
namespace {

using nlohmann::json;

constexpr double kAlpha = 0.05;

Finding judge(const json& settings, const TrialResults& results) {
  const double matters = settings.at("matters");
  Finding finding{.figure_name = "mean rank correlation of depth and what removing a head costs"};
  finding.plot = {.title = "Heads of higher layers cost more where a point is above 0",
                  .y_label = "rank correlation of layer and cost",
                  .series = {{}},
                  .y_marks = {0}};
  std::vector<double> values;
  int64_t rising = 0, falling = 0, flat = 0;
  for (const Subject& subject : subjects_of(settings)) {
    const json& result = results.at(subject.name);
    std::vector<double> cost;
    for (const Estimate& change : estimates_from(result.at("changes")))
      cost.push_back(change.value);
    const auto correlation = rank_correlation(result.at("layers").get<std::vector<double>>(), cost);
    if (!correlation) continue;
    values.push_back(correlation->value);
    finding.family.push_back({.name = subject.name,
                              .figure = correlation->value,
                              .interval = correlation->interval,
                              .n = std::ssize(cost),
                              .p = correlation->p});
    flat += correlation->interval.low > -matters && correlation->interval.high < matters;
    finding.plot.series[0].points.push_back({.x = static_cast<double>(finding.plot.x_names.size()),
                                             .y = correlation->value,
                                             .low = correlation->interval.low,
                                             .high = correlation->interval.high});
    finding.plot.x_names.push_back(subject.model);
  }
  const std::vector<double> corrected = holm(finding.family);
  for (size_t t = 0; t < corrected.size(); ++t) {
    if (corrected[t] >= kAlpha) continue;
    ++(finding.family[t].figure > 0 ? rising : falling);
  }
  const Estimate mean = mean_of(values);
  finding.figure = mean.value;
  finding.interval = mean.interval();
  finding.n = mean.n;
  finding.why = fmt::format(
      "Cost rises with depth in {} of {} models on data, falls in {} (corrected p < 0.05), and is "
      "flat in {} (both ends of the interval within {:.2g}).",
      rising, mean.n, falling, flat, matters);
  decide_over_models(rising, falling + flat, mean.n, finding);
  return finding;
}

}  // namespace

ExperimentKind lower_layers() {
  return {.name = "lower-layers", .trials = single_head_trials, .judge = judge};
}

}  // namespace headwise
