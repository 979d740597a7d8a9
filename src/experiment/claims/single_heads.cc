// Whether removing any one head costs little.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/subject.h"

namespace headwise {
namespace {

using nlohmann::json;

constexpr double kAlpha = 0.05;

Finding judge(const json& settings, const TrialResults& results) {
  const double little = settings.at("little");
  Finding finding{.figure_name = "of all heads cost little when they are removed alone"};
  finding.plot = {.title = "What removing one head costs",
                  .x_label = "heads, from the cheapest (shares of the model's heads)",
                  .y_label = "rise of the loss, %",
                  .y_marks = {0, 100 * little}};
  // Costly: above the threshold, corrected over all heads of all models. Cheap: the simultaneous
  // bound of the model is below it.
  std::vector<std::string> subjects;
  std::vector<size_t> subject_of_test;
  std::vector<int64_t> heads_of, cheap_of;
  for (const Subject& subject : subjects_of(settings)) {
    const json& result = results.at(subject.name);
    const double scale = result.at("scale");
    const std::vector<Estimate> changes = estimates_from(result.at("changes"));
    int64_t cheap = 0;
    std::vector<double> sorted;
    for (size_t h = 0; h < changes.size(); ++h) {
      const Estimate change = changes[h].over(scale);
      cheap += change.upper_bound(kAlpha / static_cast<double>(changes.size())) < little;
      sorted.push_back(change.value);
      finding.family.push_back(
          {.name = fmt::format("{} {}", subject.name, result.at("heads").at(h).get<std::string>()),
           .figure = change.value,
           .interval = change.interval(),
           .n = change.n,
           .p = change.p_above(little)});
      subject_of_test.push_back(subjects.size());
    }
    std::ranges::sort(sorted);
    PlotSeries& series =
        finding.plot.series.emplace_back(PlotSeries{.name = subject.name, .line = true});
    for (size_t i = 0; i < sorted.size(); ++i) {
      series.points.push_back(
          {.x = (static_cast<double>(i) + 0.5) / static_cast<double>(sorted.size()),
           .y = 100 * sorted[i]});
    }
    subjects.push_back(subject.name);
    heads_of.push_back(std::ssize(changes));
    cheap_of.push_back(cheap);
  }
  const std::vector<double> corrected = holm(finding.family);
  std::vector<int64_t> costly_of(subjects.size());
  for (size_t t = 0; t < corrected.size(); ++t) {
    costly_of[subject_of_test[t]] += corrected[t] < kAlpha;
  }
  int64_t all = 0, cheap = 0, costly = 0, with_costly = 0, all_cheap = 0;
  std::vector<std::string> named;
  for (size_t s = 0; s < subjects.size(); ++s) {
    all += heads_of[s];
    cheap += cheap_of[s];
    costly += costly_of[s];
    with_costly += costly_of[s] > 0;
    all_cheap += cheap_of[s] == heads_of[s];
    named.push_back(fmt::format("{}: {} of {}", subjects[s], costly_of[s], heads_of[s]));
  }
  finding.n = all;
  finding.figure = static_cast<double>(cheap) / static_cast<double>(all);
  finding.interval = share_interval(cheap, all);
  finding.why = fmt::format(
      "{} of {} heads cost less than {:.3g} % of the loss (simultaneous 95 % bound), {} cost more "
      "(corrected p < 0.05), by model on data {}.",
      cheap, all, 100 * little, costly, fmt::join(named, ", "));
  const auto models = static_cast<int64_t>(subjects.size());
  decide_over_models(all_cheap, with_costly, models, finding);
  return finding;
}

}  // namespace

ExperimentKind single_heads() {
  return {.name = "single-heads", .trials = single_head_trials, .judge = judge};
}

}  // namespace headwise
