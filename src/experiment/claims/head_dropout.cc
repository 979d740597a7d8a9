// Whether head dropout spreads importance over heads and makes pruning cheaper, and at what cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/effects.h"
#include "experiment/small_training.h"

namespace headwise {
namespace {

using nlohmann::json;

std::string name_of(const std::string& task, const json& rate, int64_t seed) {
  return fmt::format("{} dropout={} seed={}", task, rate.dump(), seed);
}

json run(const std::string& name, const json& settings, double rate, int64_t seed,
         TrialContext& context) {
  const SmallTask task = small_task(name, settings.at("data"), context);
  TrainableModel model = TrainableModel::create(small_config(task, settings.at("model")),
                                                {.seed = init_seed(seed, context)});
  FineTuneOptions training =
      small_training(settings.at("training"), order_seed(seed, context), context);
  training.head_dropout = static_cast<float>(rate);
  fine_tune(task.train, training, model);

  std::vector<float> gates(model.heads(), 1.f);
  const double loss = validation_loss(task, model);
  std::vector<double> added, pruned = {loss};
  for (float& gate : gates) {
    gate = 0;
    added.push_back(validation_loss(task, model, gates) - loss);
    gate = 1;
  }
  const int64_t keep = settings.at("model").at("heads").get<int64_t>() / 2;
  remove_greedily(task, model, settings.at("sample"), keep, gates,
                  [&] { pruned.push_back(validation_loss(task, model, gates)); });
  return {{"loss", loss}, {"added", added}, {"pruned", pruned}};
}

std::vector<ExperimentTrial> trials(const json& settings) {
  std::vector<ExperimentTrial> trials;
  for (int64_t seed = 0; seed < settings.at("seeds"); ++seed) {
    for (const auto& [task, of_task] : settings.at("tasks").items()) {
      for (const json& rate : settings.at("dropout")) {
        trials.push_back({.name = name_of(task, rate, seed),
                          .run = [=, name = task, own = of_task](TrialContext& context) {
                            return run(name, own, rate, seed, context);
                          }});
      }
    }
  }
  return trials;
}

/// How many equally important heads would be as evenly spread: exp(entropy) of what ablating each
/// head adds to the loss.
double effective_heads(const std::vector<double>& added) {
  double sum = 0, entropy = 0;
  for (const double x : added) sum += std::max(0., x);
  for (const double x : added) {
    if (x > 0) entropy -= x / sum * std::log(x / sum);
  }
  return std::exp(entropy);
}

struct Measured {
  std::vector<double> loss{}, spread{}, cost{};  // by seed; cost: of removing half of the heads
};

Measured measured(const json& settings, const TrialResults& results, const std::string& task,
                  const json& rate) {
  Measured all;
  for (int64_t seed = 0; seed < settings.at("seeds"); ++seed) {
    const json& result = results.at(name_of(task, rate, seed));
    all.loss.push_back(result.at("loss"));
    all.spread.push_back(effective_heads(result.at("added").get<std::vector<double>>()));
    all.cost.push_back(result.at("pruned").back().get<double>() - all.loss.back());
  }
  return all;
}

Finding judge(const json& settings, const TrialResults& results) {
  const double smallest = settings.at("smallest"), smallest_spread = settings.at("smallest_spread");
  const json rates = settings.at("dropout");
  Finding finding{
      .figure_name = fmt::format("nats that removing half of the heads costs less after "
                                 "training with a head dropout of {}, mean of tasks",
                                 rates.back().dump()),
      .n = settings.at("seeds"),
      .plot = {.title = "Head dropout, and removing half of the heads",
               .x_label = "head dropout",
               .y_label = "validation loss",
               .x_names = {}}};
  for (const json& rate : rates) finding.plot.x_names.push_back(rate.dump());
  std::vector<ClaimTest> costs;  // not part of the claim
  std::vector<double> least, gains(finding.n);
  for (const auto& [task, of_task] : settings.at("tasks").items()) {
    const Measured without = measured(settings, results, task, rates.front());
    std::vector<PlotSeries> series = {
        {.name = fmt::format("{}, all heads", task), .line = true},
        {.name = fmt::format("{}, half removed", task), .line = true}};
    for (size_t r = 0; r < rates.size(); ++r) {
      const Measured with = measured(settings, results, task, rates[r]);
      finding.why += fmt::format(
          "{} with {}: loss {:.3f}, as if {:.1f} heads mattered, half removed {:+.3f}; ", task,
          rates[r].dump(), mean_of(with.loss).value, mean_of(with.spread).value,
          mean_of(with.cost).value);
      for (const bool half : {false, true}) {
        std::vector<double> losses = with.loss;
        for (size_t s = 0; half && s < losses.size(); ++s) losses[s] += with.cost[s];
        const Estimate loss = mean_of(losses);
        PlotPoint& point = series[half].points.emplace_back(
            PlotPoint{.x = static_cast<double>(r), .y = loss.value});
        if (const auto interval = loss.interval()) {
          point.low = interval->low;
          point.high = interval->high;
        }
      }
      if (r == 0) continue;
      const std::string name = fmt::format("{} with {}", task, rates[r].dump());
      finding.family.push_back(test_above(name + ": importance is spread over more heads",
                                          paired_difference(with.spread, without.spread)));
      least.push_back(smallest_spread);
      finding.family.push_back(test_above(name + ": removing half costs less",
                                          paired_difference(without.cost, with.cost)));
      least.push_back(smallest);
      costs.push_back(test_above(name + ": the loss with all heads is higher",
                                 paired_difference(with.loss, without.loss)));
      if (r + 1 < rates.size()) continue;
      for (int64_t s = 0; s < finding.n; ++s) {
        gains[s] +=
            (without.cost[s] - with.cost[s]) / static_cast<double>(settings.at("tasks").size());
      }
    }
    finding.plot.series.insert(finding.plot.series.end(), series.begin(), series.end());
  }
  const size_t claimed = finding.family.size();
  finding.family.insert(finding.family.end(), costs.begin(), costs.end());
  least.resize(finding.family.size(), smallest);
  const std::vector<Effect> effects = effects_of(finding.family, least);
  const std::span of_claim = std::span(effects).first(claimed);
  decide(of_claim, "the task and the rate of dropout", finding);
  const Estimate gain = mean_of(gains);
  finding.figure = gain.value;
  finding.interval = gain.interval();
  finding.why += fmt::format(
      "of {} tests of the claim {} hold and {} do not; it costs {} nats or more with all heads in "
      "{} of {} cases, and less in {}.",
      claimed, std::ranges::count(of_claim, Effect::there),
      std::ranges::count(of_claim, Effect::absent), smallest,
      std::ranges::count(std::span(effects).subspan(claimed), Effect::there), costs.size(),
      std::ranges::count(std::span(effects).subspan(claimed), Effect::absent));
  return finding;
}

}  // namespace

ExperimentKind head_dropout() { return {.name = "head-dropout", .trials = trials, .judge = judge}; }

}  // namespace headwise
