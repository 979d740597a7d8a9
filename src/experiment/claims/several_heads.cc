// Whether several heads beat one wide head, and whether their number or their width decides.
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

constexpr int64_t kSeveral = 4;

std::string name_of(const std::string& task, int64_t width, int64_t heads, int64_t seed) {
  return fmt::format("{} width={} heads={} seed={}", task, width, heads, seed);
}

json run(const std::string& name, const json& settings, int64_t width, int64_t heads, int64_t seed,
         TrialContext& context) {
  const SmallTask task = small_task(name, settings.at("data"), context);
  json shape = settings.at("model");
  shape.update({{"width", width}, {"heads", heads}, {"feed_forward", 2 * width}});
  TrainableModel model =
      TrainableModel::create(small_config(task, shape), {.seed = init_seed(seed, context)});
  fine_tune(task.train, small_training(settings.at("training"), order_seed(seed, context), context),
            model);
  return {{"loss", validation_loss(task, model)}, {"parameters", parameters_of(model)}};
}

/// Calls f for every task and width, with the numbers of heads.
template <class F>
void for_each_cell(const json& settings, const F& f) {
  for (const auto& [task, of_task] : settings.at("tasks").items()) {
    for (const json& model : settings.at("models")) {
      f(task, of_task, model.at("width").get<int64_t>(),
        model.at("heads").get<std::vector<int64_t>>());
    }
  }
}

std::vector<ExperimentTrial> trials(const json& settings) {
  std::vector<ExperimentTrial> trials;
  for (int64_t seed = 0; seed < settings.at("seeds"); ++seed) {
    for_each_cell(settings, [&](const std::string& task, const json& of_task, int64_t width,
                                const std::vector<int64_t>& numbers) {
      for (const int64_t heads : numbers) {
        trials.push_back(
            {.name = name_of(task, width, heads, seed), .run = [=](TrialContext& context) {
               return run(task, of_task, width, heads, seed, context);
             }});
      }
    });
  }
  return trials;
}

/// The losses of one task and width, of each number of heads and seed.
struct Cell {
  std::string task{}, name{};
  int64_t width = 0;
  std::vector<int64_t> heads{};
  std::vector<std::vector<double>> losses{};  // [heads][seed]

  const std::vector<double>& of(int64_t number) const {
    return losses.at(std::ranges::find(heads, number) - heads.begin());
  }

  /// log2 of the fewest heads that lose less than `smallest` against the best, of each seed.
  std::vector<double> fewest(double smallest) const {
    std::vector<double> fewest;
    for (size_t s = 0; s < losses[0].size(); ++s) {
      double best = losses[0][s];
      for (const auto& of_heads : losses) best = std::min(best, of_heads[s]);
      size_t h = 0;
      while (losses[h][s] >= best + smallest) ++h;
      fewest.push_back(std::log2(static_cast<double>(heads[h])));
    }
    return fewest;
  }
};

std::vector<Cell> cells_of(const json& settings, const TrialResults& results) {
  std::vector<Cell> cells;
  for_each_cell(settings, [&](const std::string& task, const json&, int64_t width,
                              const std::vector<int64_t>& numbers) {
    Cell& cell = cells.emplace_back(Cell{.task = task,
                                         .name = fmt::format("{}, width {}", task, width),
                                         .width = width,
                                         .heads = numbers});
    for (const int64_t heads : numbers) {
      auto& losses = cell.losses.emplace_back();
      for (int64_t seed = 0; seed < settings.at("seeds"); ++seed) {
        losses.push_back(results.at(name_of(task, width, heads, seed)).at("loss"));
      }
    }
  });
  return cells;
}

std::string says(const Cell& cell, double smallest) {
  std::string text = fmt::format("{}:", cell.name);
  for (size_t h = 0; h < cell.heads.size(); ++h) {
    text += fmt::format("{} {:.3f} with {}", h == 0 ? "" : ",", mean_of(cell.losses[h]).value,
                        cell.heads[h]);
  }
  return text + fmt::format(", fewest that suffice {:.1f};",
                            std::exp2(mean_of(cell.fewest(smallest)).value));
}

Finding judge(const json& settings, const TrialResults& results) {
  const double smallest = settings.at("smallest");
  const std::vector<Cell> cells = cells_of(settings, results);
  Finding finding{.figure_name = "nats that one head loses against four, mean of tasks and widths",
                  .n = settings.at("seeds"),
                  .plot = {.title = "The same parameters in 1 to 32 heads",
                           .x_label = "heads",
                           .y_label = "validation loss, nats more than the best",
                           .y_marks = {0},
                           .log_x = true}};
  std::vector<double> gains(finding.n);
  for (const Cell& cell : cells) {
    const auto& several = cell.of(kSeveral);
    for (int64_t s = 0; s < finding.n; ++s) {
      gains[s] += (cell.of(1)[s] - several[s]) / static_cast<double>(cells.size());
    }
    finding.family.push_back(test_above(fmt::format("{}: 1 head worse than 4", cell.name),
                                        paired_difference(cell.of(1), several)));
  }
  for (const Cell& cell : cells) {
    finding.family.push_back(
        test_above(fmt::format("{}: {} heads of width {} worse than 4", cell.name,
                               cell.heads.back(), cell.width / cell.heads.back()),
                   paired_difference(cell.losses.back(), cell.of(kSeveral))));
  }
  const std::vector<Effect> effects = effects_of(finding.family, smallest);
  const std::span one(effects.data(), cells.size()),
      many(effects.data() + cells.size(), cells.size());
  decide(one, "the task", finding);
  const Estimate gain = mean_of(gains);
  finding.figure = gain.value;
  finding.interval = gain.interval();

  finding.why = "Mean validation loss by heads: ";
  for (const Cell& cell : cells) finding.why += says(cell, smallest) + " ";
  finding.why += fmt::format(
      "one head is worse than four by {} nats or more in {} of {} cases, and it is not in {}; the "
      "most heads are worse than four in {}, and are not in {}.",
      smallest, std::ranges::count(one, Effect::there), cells.size(),
      std::ranges::count(one, Effect::absent), std::ranges::count(many, Effect::there),
      std::ranges::count(many, Effect::absent));

  // Where the optimum lies: the same number at both widths, or the same width of a head.
  for (size_t narrow = 0; narrow + 1 < cells.size(); ++narrow) {
    const Cell &a = cells[narrow], &b = cells[narrow + 1];
    if (a.task != b.task) continue;
    const Estimate shift = paired_difference(b.fewest(smallest), a.fewest(smallest));
    const auto interval = shift.interval();
    finding.why += fmt::format(
        " {}: from width {} to {} the fewest heads that suffice change by {:+.2f} doublings",
        a.task, a.width, b.width, shift.value);
    if (interval)
      finding.why += fmt::format(" ({:+.2f} to {:+.2f})", interval->low, interval->high);
    finding.why += "; 0 is the same number, 1 the same width of a head.";
  }

  for (const Cell& cell : cells) {
    PlotSeries& series =
        finding.plot.series.emplace_back(PlotSeries{.name = cell.name, .line = true});
    double best = mean_of(cell.losses[0]).value;
    for (const auto& losses : cell.losses) best = std::min(best, mean_of(losses).value);
    for (size_t h = 0; h < cell.heads.size(); ++h) {
      const Estimate loss = mean_of(cell.losses[h]);
      PlotPoint& point = series.points.emplace_back(
          PlotPoint{.x = static_cast<double>(cell.heads[h]), .y = loss.value - best});
      if (const auto interval = loss.interval()) {
        point.low = interval->low - best;
        point.high = interval->high - best;
      }
    }
  }
  return finding;
}

}  // namespace

ExperimentKind several_heads() {
  return {.name = "several-heads", .trials = trials, .judge = judge};
}

}  // namespace headwise
