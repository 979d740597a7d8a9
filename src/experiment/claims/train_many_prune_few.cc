// Whether training many heads and pruning to few beats training few, for the same compute.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/shuffle.h"
#include "experiment/claims/claims.h"
#include "experiment/effects.h"
#include "experiment/small_training.h"

namespace headwise {
namespace {

using nlohmann::json;

constexpr double kForwardShare = 1. / 3;  // of the compute of a training step

// How a model with few heads is made. "few in two" is trained in two schedules, as the pruned ones
// are, and "random" is pruned without looking.
constexpr auto kWays = std::to_array<const char*>({"few", "few in two", "pruned", "random"});

std::string name_of(const std::string& task, int64_t few, int64_t seed) {
  return fmt::format("{} few={} seed={}", task, few, seed);
}

class Recipe {
 public:
  Recipe(const std::string& name, const json& settings, int64_t few, int64_t seed,
         TrialContext& context)
      : settings_(settings),
        context_(context),
        few_(few),
        seed_(seed),
        task_(small_task(name, settings.at("data"), context)) {
    json shape = settings.at("model");
    many_ = shape.at("heads");
    shape["head_dim"] = shape.at("width").get<int64_t>() / many_;
    few_config_ = shape;
    few_config_["heads"] = few;
    many_config_ = shape;
  }

  double few_at_once() {
    TrainableModel model = create(few_config_);
    train(model, 0, task_.train.size(), settings_.at("training"), {});
    return validation_loss(task_, model);
  }

  double few_in_two() {
    TrainableModel model = create(few_config_);
    const int64_t last = after_cut();
    train(model, 0, task_.train.size() - last, settings_.at("training"), {});
    train(model, task_.train.size() - last, last, settings_.at("recovery"), {});
    return validation_loss(task_, model);
  }

  /// The same compute: fewer examples before the cut, since each costs more, and since choosing
  /// heads costs losses.
  json pruned(bool randomly) {
    TrainableModel model = create(many_config_);
    std::vector<float> gates(model.heads(), 1.f);
    const int64_t sample = settings_.at("sample"), last = after_cut();
    const double more =
        multiply_adds(task_, many_config_, many_) / multiply_adds(task_, few_config_, few_);
    const int64_t layers = settings_.at("model").at("layers");
    int64_t losses = 0;
    for (int64_t h = few_ * layers + 1; !randomly && h <= many_ * layers; ++h) losses += h;
    const double choice = static_cast<double>(losses * sample) * kForwardShare;
    const auto first =
        static_cast<int64_t>(static_cast<double>(task_.train.size() - last) / more - choice);
    train(model, 0, first, settings_.at("training"), {});
    json result = {{"whole", validation_loss(task_, model)}, {"examples", first + last}};
    if (randomly) {
      remove_randomly(model, gates);
    } else {
      remove_greedily(task_, model, sample, few_, gates);
    }
    result["cut"] = validation_loss(task_, model, gates);
    train(model, task_.train.size() - last, last, settings_.at("recovery"), gates);
    result["loss"] = validation_loss(task_, model, gates);
    return result;
  }

 private:
  int64_t after_cut() const {
    return static_cast<int64_t>(settings_.at("after_cut").get<double>() *
                                static_cast<double>(task_.train.size()));
  }

  TrainableModel create(const json& shape) {
    return TrainableModel::create(small_config(task_, shape), {.seed = init_seed(seed_, context_)});
  }

  void train(TrainableModel& model, int64_t begin, int64_t count, const json& training,
             const std::vector<float>& gates) {
    FineTuneOptions options = small_training(training, order_seed(seed_, context_), context_);
    options.gates = gates;
    fine_tune(part_of(task_.train, begin, count), options, model);
  }

  void remove_randomly(const TrainableModel& model, std::vector<float>& gates) {
    Random random(order_seed(seed_, context_), 7);
    for (const AttentionSite& site : model.attentions()) {
      for (const int64_t h : choose_below(many_ - few_, many_, Random(random.next()))) {
        gates[site.first + h] = 0;
      }
    }
  }

  const json& settings_;
  TrialContext& context_;
  int64_t few_, many_ = 0, seed_;
  SmallTask task_;
  json few_config_, many_config_;
};

std::vector<ExperimentTrial> trials(const json& settings) {
  std::vector<ExperimentTrial> trials;
  for (int64_t seed = 0; seed < settings.at("seeds"); ++seed) {
    for (const auto& [task, of_task] : settings.at("tasks").items()) {
      for (const int64_t few : settings.at("few")) {
        trials.push_back({.name = name_of(task, few, seed),
                          .run = [=, name = task, own = of_task](TrialContext& context) -> json {
                            Recipe recipe(name, own, few, seed, context);
                            return {{"few", {{"loss", recipe.few_at_once()}}},
                                    {"few in two", {{"loss", recipe.few_in_two()}}},
                                    {"pruned", recipe.pruned(false)},
                                    {"random", recipe.pruned(true)}};
                          }});
      }
    }
  }
  return trials;
}

Finding judge(const json& settings, const TrialResults& results) {
  const double smallest = settings.at("smallest");
  Finding finding{.figure_name = "nats that pruning to few gains on training few, mean of cases",
                  .n = settings.at("seeds"),
                  .plot = {.title = "Few heads of the same compute, trained or pruned",
                           .x_label = "how the heads came about",
                           .y_label = "validation loss, nats more than trained few",
                           .x_names = {kWays.begin(), kWays.end()},
                           .y_marks = {0}}};
  std::vector<double> gains(finding.n);
  std::vector<ClaimTest> beside;  // not part of the claim
  const auto cells = static_cast<double>(settings.at("tasks").size() * settings.at("few").size());
  finding.why = "Mean validation loss: ";
  for (const auto& [task, of_task] : settings.at("tasks").items()) {
    for (const int64_t few : settings.at("few")) {
      const auto losses = [&](const char* way, const char* which = "loss") {
        std::vector<double> all;
        for (int64_t seed = 0; seed < finding.n; ++seed) {
          all.push_back(results.at(name_of(task, few, seed)).at(way).at(which));
        }
        return all;
      };
      const std::string cell = fmt::format("{}, {} of {} heads", task, few,
                                           of_task.at("model").at("heads").get<int64_t>());
      const std::vector<double> pruned = losses("pruned"), trained = losses("few");
      for (const char* way : {"few", "few in two"}) {
        finding.family.push_back(test_above(fmt::format("{}: {} worse than pruned", cell, way),
                                            paired_difference(losses(way), pruned)));
      }
      beside.push_back(test_above(fmt::format("{}: random worse than pruned", cell),
                                  paired_difference(losses("random"), pruned)));
      for (int64_t s = 0; s < finding.n; ++s) gains[s] += (trained[s] - pruned[s]) / cells;
      finding.why += fmt::format("{}: ", cell);
      PlotSeries& series = finding.plot.series.emplace_back(PlotSeries{.name = cell});
      for (size_t way = 0; way < kWays.size(); ++way) {
        const Estimate worse = paired_difference(losses(kWays[way]), trained);
        finding.why += fmt::format("{:.3f} {}, ", mean_of(losses(kWays[way])).value, kWays[way]);
        PlotPoint& point =
            series.points.emplace_back(PlotPoint{.x = static_cast<double>(way), .y = worse.value});
        if (const auto interval = worse.interval()) {
          point.low = interval->low;
          point.high = interval->high;
        }
      }
      finding.why += fmt::format("{:.3f} with all heads before the cut and {:.3f} right after; ",
                                 mean_of(losses("pruned", "whole")).value,
                                 mean_of(losses("pruned", "cut")).value);
    }
  }
  const size_t claimed = finding.family.size();
  finding.family.insert(finding.family.end(), beside.begin(), beside.end());
  const std::vector<Effect> effects = effects_of(finding.family, smallest);
  const std::span of_claim = std::span(effects).first(claimed),
                  chosen = std::span(effects).subspan(claimed);
  decide(of_claim, "the task and how few heads are left", finding);
  const Estimate gain = mean_of(gains);
  finding.figure = gain.value;
  finding.interval = gain.interval();
  finding.why += fmt::format(
      "pruning gains {} nats or more in {} of {} comparisons, and it does not in {}; which heads "
      "go "
      "matters in {} of {} cases, and does not in {}.",
      smallest, std::ranges::count(of_claim, Effect::there), of_claim.size(),
      std::ranges::count(of_claim, Effect::absent), std::ranges::count(chosen, Effect::there),
      chosen.size(), std::ranges::count(chosen, Effect::absent));
  return finding;
}

}  // namespace

ExperimentKind train_many_prune_few() {
  return {.name = "train-many-prune-few", .trials = trials, .judge = judge};
}

}  // namespace headwise
