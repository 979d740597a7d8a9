// Whether some heads do harm: chosen on one half of the data, tested on the other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
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

std::vector<ExperimentTrial> trials(const json& settings) { return subject_trials(settings, run); }

Finding judge(const json& settings, const TrialResults& results) {
  Finding finding{.figure_name =
                      "of the heads that look harmful on one half are harmful on the other"};
  finding.plot = {.title = "Heads that look harmful on one half of the data",
                  .x_label = "change of the loss on the half that chose, %",
                  .y_label = "on the other half, %",
                  .y_marks = {0, -100 * kMatters}};
  struct Model {
    std::string name{}, domain{};
    double least = 0;     // the lowest simultaneous bound of a change, a share of the loss
    double together = 0;  // the change without all that looked harmful, mean of both halves
    int64_t harmful = 0;
  };
  std::vector<Model> models;
  std::vector<size_t> model_of;  // by test
  for (const json& json_subject : settings.at("subjects")) {
    const Subject subject = subject_of(json_subject);
    const json& result = results.at(subject.name);
    const double loss = result.at("loss");
    Model& model = models.emplace_back(
        Model{.name = subject.name, .domain = json_subject.at("domain").get<std::string>()});
    PlotSeries& series = finding.plot.series.emplace_back(PlotSeries{.name = subject.name});
    for (const int half : {0, 1}) {
      const std::vector<Estimate> choose = estimates_from(result.at("changes").at(half));
      const std::vector<Estimate> test = estimates_from(result.at("changes").at(1 - half));
      for (const int64_t h : chosen(choose)) {
        const Estimate change = test[h].over(loss);
        finding.family.push_back(
            {.name = fmt::format("{} {}, tested on half {}", subject.name,
                                 result.at("heads").at(h).get<std::string>(), 2 - half),
             .figure = change.value,
             .interval = change.interval(),
             .n = change.n,
             .p = change.p_below(0)});
        model_of.push_back(models.size() - 1);
        series.points.push_back({.x = 100 * choose[h].value / loss,
                                 .y = 100 * change.value,
                                 .low = 100 * change.interval()->low,
                                 .high = 100 * change.interval()->high});
      }
      for (const Estimate& change : test) {
        const double bound = change.lower_bound(kDecides / static_cast<double>(test.size()));
        model.least = std::min(model.least, bound / loss);
      }
      const json& together = result.at("together").at(half);
      if (!together.is_null()) {
        model.together += estimates_from(together).at(0).value / loss / 2;
      }
    }
  }
  const std::vector<double> corrected = holm(finding.family);
  int64_t harmful = 0;
  for (size_t t = 0; t < corrected.size(); ++t) {
    if (corrected[t] >= kDecides || finding.family[t].figure > -kMatters) continue;
    ++models[model_of[t]].harmful;
    ++harmful;
  }
  int64_t with = 0, without = 0;
  std::set<std::string> domains_with, domains_without;
  std::vector<std::string> together;
  for (const Model& model : models) {
    together.push_back(fmt::format("{} {:+.2g} %", model.name, 100 * model.together));
    if (model.harmful > 0) {
      ++with;
      domains_with.insert(model.domain);
    } else if (model.least > -kNone) {
      ++without;
      domains_without.insert(model.domain);
    }
  }
  const auto all = std::ssize(models), tested = std::ssize(corrected);
  finding.n = tested;
  if (tested > 0) {
    finding.figure = static_cast<double>(harmful) / static_cast<double>(tested);
    finding.interval = share_interval(harmful, tested);
  }
  finding.why = fmt::format(
      "{} heads looked harmful on one half, {} of them are on the other (corrected p < 0.05, the "
      "loss falls by 0.2 % or more). Of {} models on data {} have such heads, {} have none whose "
      "removal gains 0.5 %. Without all heads that looked harmful on one half the loss on the "
      "other changes by: {}.",
      tested, harmful, all, with, without, fmt::join(together, ", "));
  decide_over_models(with, without, all, finding);
  const bool by_domain = with + without == all && domains_with.size() == 1 &&
                         domains_without.size() == 1 && domains_with != domains_without;
  if (finding.outcome == ClaimOutcome::depends) {
    finding.depends_on = by_domain ? "whether the data are of the domain that it was trained on"
                                   : "the model and the data";
  }
  return finding;
}

}  // namespace

ExperimentKind harmful_heads() {
  return {.name = "harmful-heads", .trials = trials, .judge = judge};
}

}  // namespace headwise
