// Whether heads take roles of their own without being told to, when, and what decides who takes
// which.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/effects.h"
#include "experiment/small_training.h"
#include "headwise/core/random.h"

namespace headwise {
namespace {

using nlohmann::json;

constexpr double kOwns = 0.5;   // a head has the role to which it gives half of its weight or more
constexpr double kShare = 0.5;  // of the heads: more must have a role
constexpr int64_t kGridHeads = 4;  // of the trials that transplant and that begin equal

using Weights = std::vector<std::vector<double>>;  // [head][relation]

/// The relation that each head has taken, or none.
std::vector<std::optional<size_t>> roles_of(const Weights& weights) {
  std::vector<std::optional<size_t>> roles;
  for (const auto& head : weights) {
    const auto most = std::ranges::max_element(head);
    roles.push_back(*most >= kOwns ? std::optional<size_t>(most - head.begin()) : std::nullopt);
  }
  return roles;
}

/// Of the heads, those with a role.
double share_with_role(const Weights& weights) {
  const auto roles = roles_of(weights);
  const auto with = std::ranges::count_if(roles, [](const auto& role) { return role.has_value(); });
  return static_cast<double>(with) / static_cast<double>(roles.size());
}

/// Of the relations, those that a head has taken.
double share_taken(const Weights& weights) {
  std::set<size_t> taken;
  for (const auto& role : roles_of(weights)) {
    if (role) taken.insert(*role);
  }
  return static_cast<double>(taken.size()) / kRelations.size();
}

/// Of the heads, those that took the same role in both.
double agreement(const Weights& a, const Weights& b) {
  const auto roles_a = roles_of(a), roles_b = roles_of(b);
  double same = 0;
  for (size_t h = 0; h < roles_a.size(); ++h) same += roles_a[h] && roles_a[h] == roles_b[h];
  return same / static_cast<double>(roles_a.size());
}

json rounded(const Weights& weights) {
  json rows = json::array();
  for (const auto& head : weights) {
    json& row = rows.emplace_back(json::array());
    for (const double weight : head) row.push_back(std::round(weight * 1e4) / 1e4);
  }
  return rows;
}

enum class Part { query_key, value_output, attention };
constexpr auto kParts =
    std::to_array<const char*>({"query and key", "value and output", "all of it"});

/// Copies first weights of the attention of another model.
void transplant(TrainableModel& from, TrainableModel& to, Part part) {
  const auto copy = [](View<float, 2> source, View<float, 2> target, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < source.extent(1); ++c) target(r, c) = source(r, c);
    }
  };
  const auto rows = [](TrainableModel& model, const char* which) {
    const auto found = std::ranges::find(
        model.tensors(), fmt::format("transformer.h.0.attn.{}.weight", which), &StoredTensor::name);
    return found->parts[0].values;
  };
  const View<float, 2> source = transposed(rows(from, "c_attn")),
                       target = transposed(rows(to, "c_attn"));
  const int64_t values = source.extent(0) / 3 * 2;
  if (part != Part::value_output) copy(source, target, 0, values);
  if (part == Part::query_key) return;
  copy(source, target, values, source.extent(0));
  copy(rows(from, "c_proj"), rows(to, "c_proj"), 0, rows(from, "c_proj").extent(0));
}

/// Adds noise of this share of the first weights' deviation to the projections.
void disturb(TrainableModel& model, double deviation, uint64_t seed) {
  if (deviation == 0) return;
  Random random(seed, 5);
  for (const StoredTensor& tensor : model.tensors()) {
    if (!tensor.name.starts_with("transformer.h.0.attn.c_") || !tensor.name.ends_with("weight")) {
      continue;
    }
    const View<float, 2> values = tensor.parts[0].values;
    for (int64_t r = 0; r < values.extent(0); ++r) {
      for (int64_t c = 0; c < values.extent(1); ++c) {
        values(r, c) += static_cast<float>(deviation) * random.normal();
      }
    }
  }
}

/// The largest difference of the queries of two heads.
double difference_of_heads(TrainableModel& model) {
  const auto found =
      std::ranges::find(model.tensors(), "transformer.h.0.attn.c_attn.weight", &StoredTensor::name);
  const View<float, 2> rows = transposed(found->parts[0].values);
  const int64_t head = model.attentions()[0].head_dim;
  double most = 0;
  for (int64_t r = head; r < model.heads() * head; ++r) {
    for (int64_t c = 0; c < rows.extent(1); ++c) {
      most = std::max(most, std::abs(double{rows(r, c)} - rows(r % head, c)));
    }
  }
  return most;
}

struct Setup {
  SmallTask task{};
  json shape{};

  Setup(const json& settings, int64_t heads, TrialContext& context)
      : task(small_task("relations", settings.at("data"), context)), shape(settings.at("model")) {
    shape["heads"] = heads;
  }
  TrainableModel create(uint64_t seed, bool same = false) const {
    return TrainableModel::create(small_config(task, shape), {.seed = seed, .same_heads = same});
  }
};

/// Looks at the model so often during its training, and at its end.
json trained(const json& settings, const SmallTask& task, TrainableModel& model, int64_t order,
             int64_t looks, TrialContext& context) {
  FineTuneOptions training =
      small_training(settings.at("training"), order_seed(order, context), context);
  json result, course = json::array();
  const auto look = [&](int64_t step) {
    const Weights weights = relation_weights(task, model);
    course.push_back({{"step", step},
                      {"loss", validation_loss(task, model)},
                      {"with_role", share_with_role(weights)},
                      {"taken", share_taken(weights)}});
  };
  if (looks > 0) {
    look(0);
    training.progress = [&](int64_t done, int64_t steps, double) {
      context.progress(done, steps);
      if (done * looks / steps != (done - 1) * looks / steps) look(done);
    };
  }
  fine_tune(task.train, training, model);
  result["loss"] = validation_loss(task, model);
  result["weights"] = rounded(relation_weights(task, model));
  if (looks > 0) result["course"] = course;
  return result;
}

std::string number_name(int64_t heads, int64_t seed) {
  return fmt::format("heads={} seed={}", heads, seed);
}
std::string grid_name(int64_t init, int64_t order) {
  return fmt::format("init={} order={}", init, order);
}
std::string transplant_name(size_t part, int64_t seed) {
  return fmt::format("{} transplanted seed={}", kParts[part], seed);
}
std::string equal_name(const json& noise, int64_t seed) {
  return fmt::format("equal heads noise={} seed={}", noise.dump(), seed);
}

std::vector<ExperimentTrial> trials(const json& settings) {
  const int64_t seeds = settings.at("seeds"), grid = settings.at("grid");
  std::vector<ExperimentTrial> trials;
  for (int64_t seed = 0; seed < seeds; ++seed) {
    for (const int64_t heads : settings.at("heads")) {
      trials.push_back({.name = number_name(heads, seed), .run = [=](TrialContext& context) {
                          const Setup setup(settings, heads, context);
                          TrainableModel model = setup.create(init_seed(seed, context));
                          return trained(settings, setup.task, model, seed, settings.at("looks"),
                                         context);
                        }});
    }
    for (const json& noise : settings.at("noise")) {
      trials.push_back({.name = equal_name(noise, seed), .run = [=](TrialContext& context) {
                          const Setup setup(settings, kGridHeads, context);
                          TrainableModel model = setup.create(init_seed(seed, context), true);
                          const double deviation = setup.shape.at("init");
                          disturb(model, noise.get<double>() * deviation, init_seed(seed, context));
                          json result = trained(settings, setup.task, model, seed, 0, context);
                          result["difference"] = difference_of_heads(model);
                          return result;
                        }});
    }
  }
  for (int64_t init = 0; init < grid; ++init) {
    for (int64_t order = 0; order < grid; ++order) {
      trials.push_back({.name = grid_name(init, order), .run = [=](TrialContext& context) {
                          const Setup setup(settings, kGridHeads, context);
                          TrainableModel model = setup.create(init_seed(init, context));
                          return trained(settings, setup.task, model, order, 0, context);
                        }});
    }
    for (size_t part = 0; part < kParts.size(); ++part) {
      trials.push_back({.name = transplant_name(part, init), .run = [=](TrialContext& context) {
                          const Setup setup(settings, kGridHeads, context);
                          TrainableModel donor = setup.create(init_seed(init, context));
                          TrainableModel model =
                              setup.create(init_seed((init + 1) % grid, context));
                          transplant(donor, model, static_cast<Part>(part));
                          return trained(settings, setup.task, model, init, 0, context);
                        }});
    }
  }
  return trials;
}

Weights weights_of(const TrialResults& results, const std::string& trial) {
  return results.at(trial).at("weights").get<Weights>();
}

/// How alike roles are in trials that share one seed and differ in the other, for each seed.
std::vector<double> agreements(const TrialResults& results, int64_t grid, bool same_init) {
  std::vector<double> all;
  for (int64_t shared = 0; shared < grid; ++shared) {
    std::vector<double> pairs;
    for (int64_t a = 0; a < grid; ++a) {
      for (int64_t b = 0; b < a; ++b) {
        pairs.push_back(agreement(
            weights_of(results, same_init ? grid_name(shared, a) : grid_name(a, shared)),
            weights_of(results, same_init ? grid_name(shared, b) : grid_name(b, shared))));
      }
    }
    all.push_back(mean_of(pairs).value);
  }
  return all;
}

/// When a part of the final share of heads with a role is reached, as a share of the training.
double when(const json& course, const char* what, double part) {
  const double first = course.front().at(what), last = course.back().at(what);
  for (const json& look : course) {
    const double now = look.at(what);
    if (std::abs(now - first) >= part * std::abs(last - first)) {
      return look.at("step").get<double>() / course.back().at("step").get<double>();
    }
  }
  return 1;
}

Finding judge(const json& settings, const TrialResults& results) {
  const int64_t seeds = settings.at("seeds"), grid = settings.at("grid");
  const double chance = 1. / kRelations.size();
  Finding finding{.figure_name = "of four heads for four relations, those with a role of their own",
                  .n = seeds,
                  .plot = {.title = "Heads that take a role during training",
                           .x_label = "share of the training",
                           .y_label = "share of heads with a role",
                           .y_marks = {kShare}}};
  for (const int64_t heads : settings.at("heads")) {
    std::vector<double> with, taken, loss_at, role_at;
    std::vector<std::vector<double>> course;  // [look][seed]
    for (int64_t seed = 0; seed < seeds; ++seed) {
      const json& result = results.at(number_name(heads, seed));
      const Weights weights = result.at("weights").get<Weights>();
      with.push_back(share_with_role(weights));
      taken.push_back(share_taken(weights));
      loss_at.push_back(when(result.at("course"), "loss", 0.9));
      role_at.push_back(when(result.at("course"), "with_role", 0.5));
      course.resize(result.at("course").size());
      for (size_t look = 0; look < course.size(); ++look) {
        course[look].push_back(result.at("course")[look].at("with_role"));
      }
    }
    const Estimate share = mean_of(with);
    finding.family.push_back(
        test_above(fmt::format("of {} heads, more than half have a role", heads),
                   {.value = share.value - kShare, .error = share.error, .n = share.n}));
    finding.why += fmt::format(
        "Of {} heads {:.0f} % have a role, of the relations {:.0f} % are taken; half of that is "
        "reached after {:.0f} % of the training, and nine tenths of the fall of the loss after "
        "{:.0f} %. ",
        heads, 100 * share.value, 100 * mean_of(taken).value, 100 * mean_of(role_at).value,
        100 * mean_of(loss_at).value);
    if (heads == kGridHeads) {
      finding.figure = share.value;
      finding.interval = share.interval();
    }
    PlotSeries& series = finding.plot.series.emplace_back(
        PlotSeries{.name = fmt::format("{} heads", heads), .line = true});
    for (size_t look = 0; look < course.size(); ++look) {
      const Estimate mean = mean_of(course[look]);
      PlotPoint& point = series.points.emplace_back(
          PlotPoint{.x = static_cast<double>(look) / static_cast<double>(course.size() - 1),
                    .y = mean.value});
      if (const auto interval = mean.interval()) {
        point.low = interval->low;
        point.high = interval->high;
      }
    }
  }
  const size_t numbers = finding.family.size();

  // What decides who takes which role. Neither is part of the claim.
  const auto above_chance = [&](const char* what, const Estimate& same) {
    finding.family.push_back(
        test_above(what, {.value = same.value - chance, .error = same.error, .n = same.n}));
    finding.why += fmt::format("{}: {:.0f} %", what, 100 * same.value);
    if (const auto interval = same.interval()) {
      finding.why += fmt::format(" ({:.0f} to {:.0f})", 100 * interval->low, 100 * interval->high);
    }
    finding.why += "; ";
  };
  finding.why += "Heads with the same role, by chance 25 %: ";
  above_chance("same first weights, other order of data", mean_of(agreements(results, grid, true)));
  above_chance("same order, other first weights", mean_of(agreements(results, grid, false)));
  for (size_t part = 0; part < kParts.size(); ++part) {
    std::vector<double> donor;
    for (int64_t seed = 0; seed < grid; ++seed) {
      donor.push_back(agreement(weights_of(results, transplant_name(part, seed)),
                                weights_of(results, grid_name(seed, seed))));
    }
    above_chance(
        fmt::format("with the donor of {} of the attention's first weights", kParts[part]).c_str(),
        mean_of(donor));
  }

  finding.why += "Heads that begin equal: ";
  for (const json& noise : settings.at("noise")) {
    std::vector<double> taken, loss;
    double difference = 0;
    for (int64_t seed = 0; seed < seeds; ++seed) {
      const json& result = results.at(equal_name(noise, seed));
      taken.push_back(share_taken(result.at("weights").get<Weights>()));
      loss.push_back(result.at("loss"));
      difference = std::max(difference, result.at("difference").get<double>());
    }
    finding.why += fmt::format(
        "with noise of {} of the first deviation {:.0f} % of the relations are taken, loss {:.3f}, "
        "queries differ by at most {:.1e}; ",
        noise.dump(), 100 * mean_of(taken).value, mean_of(loss).value, difference);
  }
  finding.why.resize(finding.why.size() - 2);
  finding.why += ".";

  const std::vector<Effect> effects = effects_of(finding.family, 0);
  decide(std::span(effects).first(numbers),
         "how many heads there are for what is to be attended to", finding);
  return finding;
}

}  // namespace

ExperimentKind head_specialisation() {
  return {.name = "head-specialisation", .trials = trials, .judge = judge};
}

}  // namespace headwise
