// How many heads can go without training: chosen on one half of the data, measured on the other.
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

namespace headwise {
namespace {

using nlohmann::json;

std::vector<int64_t> order_of(const std::vector<double>& importance) {
  std::vector<int64_t> order(importance.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t head) { return importance[head]; });
  return order;
}

json run(const json& settings, const Subject& subject, TrialContext& context) {
  const Model& model = context.model(subject.model);
  const EvaluationSet set = examples_of(subject, model, context);
  const auto halves = random_halves(set.size());
  const Evidence chosen =
      measure_heads(model, examples_of(set, halves[0]), {"gradient", "ablation_zero"}, context);
  std::vector<std::pair<std::string, std::vector<int64_t>>> orders;
  for (const char* name : {"gradient", "ablation_zero"}) {
    orders.emplace_back(name, order_of(values_of(chosen, name)));
  }
  for (int64_t d = 0; d < settings.at("draws"); ++d) {
    std::vector<int64_t> order(model.heads());
    std::iota(order.begin(), order.end(), 0);
    Random random(context.seed(), static_cast<uint64_t>(d));
    permute(order, random);
    orders.emplace_back(fmt::format("random {}", d), std::move(order));
  }
  std::vector<std::vector<int64_t>> sets;
  for (const auto& [name, order] : orders) {
    for (const double share : settings.at("shares")) {
      const auto count =
          static_cast<int64_t>(std::lround(share * static_cast<double>(model.heads())));
      sets.emplace_back(order.begin(), order.begin() + count);
    }
  }
  const EvaluationSet tested = examples_of(set, halves[1]);
  HeadLosses losses(model, tested);
  const double loss = losses.loss(context);
  json result = {{"loss", loss}, {"scale", subject.task == LossTask::fidelity ? 1 : loss}};
  const std::vector<Estimate> changes = losses.changes(sets, context);
  const size_t shares = settings.at("shares").size();
  for (size_t o = 0; o < orders.size(); ++o) {
    result["orders"][orders[o].first] = to_json(std::span(changes).subspan(o * shares, shares));
  }
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  return subject_trials(settings, [=](const Subject& subject, TrialContext& context) {
    return run(settings, subject, context);
  });
}

Finding judge(const json& settings, const TrialResults& results) {
  const double little = settings.at("little"), claimed = settings.at("claimed");
  const auto shares = settings.at("shares").get<std::vector<double>>();
  const size_t at = std::ranges::find(shares, claimed) - shares.begin();
  Finding finding{.figure_name = "of the heads can go by gradient, mean over models"};
  finding.plot = {.title = "Removing heads in the order of their gradients",
                  .x_label = "share of the heads removed",
                  .y_label = "rise of the loss, %",
                  .y_marks = {0, 100 * little},
                  .y_most = 50};
  std::vector<double> free_shares;
  std::vector<std::string> words;
  for (const Subject& subject : subjects_of(settings)) {
    const json& result = results.at(subject.name);
    const double scale = result.at("scale");
    const std::vector<Estimate> by_gradient = estimates_from(result.at("orders").at("gradient"));
    const Estimate change = by_gradient.at(at).over(scale);
    for (const bool free : {true, false}) {
      finding.family.emplace_back(
          ClaimTest{.name = fmt::format("{}: {:.0f} % cost {} than {:.2g} %", subject.name,
                                        100 * claimed, free ? "less" : "more", 100 * little),
                    .figure = change.value,
                    .interval = change.interval(),
                    .n = change.n,
                    .p = free ? change.p_below(little) : change.p_above(little)});
    }
    // The largest share up to which every measured one costs little, each bound by itself.
    double free_share = 0, random_free = 0;
    for (size_t s = 0; s < shares.size() && by_gradient[s].p_below(little * scale) < 0.05; ++s) {
      free_share = shares[s];
    }
    free_shares.push_back(free_share);
    PlotSeries& series =
        finding.plot.series.emplace_back(PlotSeries{.name = subject.model, .line = true});
    for (size_t s = 0; s < shares.size(); ++s) {
      series.points.push_back({.x = shares[s], .y = 100 * by_gradient[s].value / scale});
    }
    const int64_t draws = settings.at("draws");
    for (int64_t d = 0; d < draws; ++d) {
      const auto random = estimates_from(result.at("orders").at(fmt::format("random {}", d)));
      random_free += random.at(at).value / scale / static_cast<double>(draws);
    }
    const auto by_ablation = estimates_from(result.at("orders").at("ablation_zero"));
    words.push_back(fmt::format("{} {:+.2g} % (ablation {:+.2g} %, random {:+.2g} %)",
                                subject.model, 100 * change.value,
                                100 * by_ablation.at(at).value / scale, 100 * random_free));
  }
  const std::vector<double> corrected = holm(finding.family);
  int64_t free = 0, costly = 0;
  for (size_t t = 0; t < corrected.size(); t += 2) {
    free += corrected[t] < 0.05;
    costly += corrected[t + 1] < 0.05;
  }
  const Estimate mean = mean_of(free_shares);
  finding.figure = mean.value;
  finding.interval = mean.interval();
  finding.n = mean.n;
  finding.why = fmt::format(
      "Without {:.0f} % of the heads, by gradient, the loss rises by: {}. That is less than {:.2g} "
      "% in {} "
      "of {} models and more in {} (corrected p < 0.05).",
      100 * claimed, fmt::join(words, "; "), 100 * little, free, mean.n, costly);
  decide_over_models(free, costly, mean.n, finding);
  return finding;
}

}  // namespace

ExperimentKind free_heads() { return {.name = "free-heads", .trials = trials, .judge = judge}; }

}  // namespace headwise
