// Whether some heads do harm: chosen on one half of the data, tested on the other.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/subject.h"

namespace headwise {
namespace {

using nlohmann::json;

constexpr double kChosen = 0.05;    // p on the half that chooses
constexpr double kDecides = 0.05;   // corrected p on the other half
constexpr double kMatters = 0.002;  // of the loss: a smaller fall is no harm
constexpr double kNone = 0.005;     // of the loss: no head whose removal gains that much

std::vector<int64_t> chosen(const std::vector<Estimate>& changes) {
  std::vector<int64_t> heads;
  for (size_t h = 0; h < changes.size(); ++h) {
    if (changes[h].p_below(0) < kChosen) heads.push_back(static_cast<int64_t>(h));
  }
  return heads;
}

json run(const Subject& subject, TrialContext& context) {
  const Model& model = context.model(subject.model);
  const EvaluationSet set = examples_of(subject, model, context);
  HeadLosses losses(model, set);
  json result = {{"loss", losses.loss(context)}, {"heads", json::array()}};
  for (int64_t h = 0; h < model.heads(); ++h) result["heads"].push_back(model.head_name(h));
  const auto halves = random_halves(losses.size());
  for (const int half : {0, 1}) {
    const std::vector<Estimate> changes = losses.changes(each_head(model), halves[half], context);
    result["changes"].push_back(to_json(changes));
    const std::vector<int64_t> heads = chosen(changes);
    const std::vector<std::vector<int64_t>> together = {chosen(changes)};
    result["together"].push_back(
        together[0].empty() ? json()
                            : to_json(losses.changes(together, halves[1 - half], context)));
  }
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  std::vector<ExperimentTrial> trials;
  for (const Subject& subject : subjects_of(settings)) {
    trials.push_back({.name = subject.name,
                      .model = subject.model,
                      .run = [=](TrialContext& context) { return run(subject, context); }});
  }
  return trials;
}

Finding judge(const json& settings, const TrialResults& results) {
  Finding finding{.figure_name =
                      "of the heads that look harmful on one half are harmful on the "
                      "other"};
  struct Candidate {
    std::string subject;
    double loss;
  };
  std::vector<Candidate> candidates;
  std::map<std::string, double> bound;  // the most that the loss may fall without any head
  Plot& plot = finding.plot;
  plot = {.title = "Heads that look harmful on one half of the data",
          .x_label = "change of the loss on the half that chose, % of the loss",
          .y_label = "on the other half, %",
          .y_marks = {0}};
  for (const json& json_subject : settings.at("subjects")) {
    const Subject subject = subject_of(json_subject);
    const json& result = results.at(subject.name);
    const double loss = result.at("loss");
    // For fidelity the loss of the model itself is 0.
    PlotSeries& series = plot.series.emplace_back(PlotSeries{.name = subject.name});
    double& least = bound[subject.name];
    for (const int half : {0, 1}) {
      const std::vector<Estimate> choose = estimates_from(result.at("changes").at(half));
      const std::vector<Estimate> test = estimates_from(result.at("changes").at(1 - half));
      for (const int64_t h : chosen(choose)) {
        candidates.push_back({subject.name, loss});
        finding.family.push_back(
            {.name = fmt::format("{} {}, tested on half {}", subject.name,
                                 result.at("heads").at(h).get<std::string>(), 2 - half),
             .figure = test[h].value / loss,
             .interval = test[h].interval(),
             .n = test[h].n,
             .p = test[h].p_below(0)});
        auto& interval = finding.family.back().interval;
        if (interval) interval = {interval->low / loss, interval->high / loss};
        series.points.push_back({.x = 100 * choose[h].value / loss,
                                 .y = 100 * test[h].value / loss,
                                 .low = 100 * interval->low,
                                 .high = 100 * interval->high});
      }
      // Simultaneous over all heads of the half (Bonferroni), one-sided.
      for (const Estimate& change : test) {
        const double reach = student_quantile(1 - kDecides / static_cast<double>(test.size()),
                                              static_cast<double>(change.n - 1)) *
                             change.error;
        least = std::min(least, (change.value - reach) / loss);
      }
    }
  }
  std::vector<double> p;
  for (const ClaimTest& test : finding.family) p.push_back(test.p);
  const std::vector<double> corrected = holm(p);
  std::map<std::string, int64_t> harmful;
  int64_t all = 0;
  for (size_t c = 0; c < candidates.size(); ++c) {
    if (corrected[c] >= kDecides || finding.family[c].figure > -kMatters) continue;
    ++harmful[candidates[c].subject];
    ++all;
  }
  std::vector<std::string> with, without, open;
  std::set<std::string> domains_with, domains_without;
  for (const json& subject : settings.at("subjects")) {
    const std::string name = subject_of(subject).name, domain = subject.at("domain");
    (harmful.contains(name) ? with : bound[name] > -kNone ? without : open).push_back(name);
    if (harmful.contains(name)) domains_with.insert(domain);
    if (!harmful.contains(name) && bound[name] > -kNone) domains_without.insert(domain);
  }
  finding.n = std::ssize(candidates);
  if (finding.n > 0) {
    finding.figure = static_cast<double>(all) / static_cast<double>(finding.n);
    finding.interval = share_interval(all, finding.n);
  }
  const auto subjects = std::ssize(bound);
  finding.why = fmt::format(
      "{} heads looked harmful on one half, {} of them are on the other (corrected p < 0.05, the "
      "loss falls by 0.2 % or more). {} of {} models on data have such heads, {} have none whose "
      "removal gains 0.5 %, {} are open.",
      finding.n, all, with.size(), subjects, without.size(), open.size());
  if (std::ssize(with) == subjects) {
    finding.outcome = ClaimOutcome::confirmed;
  } else if (std::ssize(without) == subjects) {
    finding.outcome = ClaimOutcome::refuted;
  } else if (!with.empty() && !without.empty()) {
    finding.outcome = ClaimOutcome::depends;
    const bool by_domain = open.empty() && domains_with.size() == 1 &&
                           domains_without.size() == 1 && domains_with != domains_without;
    finding.depends_on = by_domain
                             ? "whether the data are of the domain that the model was trained on"
                             : "the model and the data";
  }
  return finding;
}

}  // namespace

ExperimentKind harmful_heads() {
  return {.name = "harmful-heads", .trials = trials, .judge = judge};
}

}  // namespace headwise
