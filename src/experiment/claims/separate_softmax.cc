// Whether it matters that every head has a softmax of its own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/effects.h"
#include "experiment/small_training.h"
#include "headwise/core/random.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {
namespace {

using nlohmann::json;

constexpr const char* kSeparate = "separate";
// Forms in which all heads of a layer share one attention distribution.
constexpr const char* kSummed = "summed";  // one softmax of the sum of the heads' scores
constexpr const char* kWide = "wide";      // the same, divided by the square root of their number
constexpr const char* kAveraged = "averaged";  // the mean of the heads' distributions
constexpr auto kShared = std::to_array<const char*>({kSummed, kWide, kAveraged});

std::string name_of(const std::string& task, const std::string& form, int64_t seed) {
  return fmt::format("{} {} seed={}", task, form, seed);
}

/// The values and output projections of the heads of a GPT-2: in "averaged" all heads have the
/// same.
class SharedValues {
 public:
  explicit SharedValues(TrainableModel& model) {
    for (const AttentionSite& site : model.attentions()) {
      const auto part = [&](const char* which) {
        const std::string name = fmt::format("transformer.h.{}.attn.{}", site.layer, which);
        return std::ranges::find(model.tensors(), name, &StoredTensor::name)->parts[0];
      };
      const auto heads = static_cast<int64_t>(site.heads.size());
      const int64_t first = 2 * heads * site.head_dim;  // after queries and keys
      // [heads * value_dim, C]
      layers_.push_back(
          {heads, site.value_dim,
           transposed(part("c_attn.weight")).rows(first, first + heads * site.value_dim),
           part("c_proj.weight")});
    }
  }

  void make_equal() {
    for (const Layer& layer : layers_) {
      for (const TensorPart& part : {layer.value, layer.output}) {
        for_each(layer, part.values, [](std::span<float*> heads) {
          for (float* number : heads) *number = *heads[0];
        });
      }
    }
  }

  /// Every head gets the sum of all heads' gradients, and so stays equal to the others.
  void add_gradients() {
    for (const Layer& layer : layers_) {
      for (const TensorPart& part : {layer.value, layer.output}) {
        for_each(layer, part.gradient, [](std::span<float*> heads) {
          float sum = 0;
          for (const float* number : heads) sum += *number;
          for (float* number : heads) *number = sum;
        });
      }
    }
  }

 private:
  struct Layer {
    int64_t heads = 0, width = 0;
    TensorPart value{}, output{};
  };

  template <class F>
  static void for_each(const Layer& layer, View<float, 2> rows, const F& f) {
    std::vector<float*> same(layer.heads);
    for (int64_t i = 0; i < layer.width; ++i) {
      for (int64_t c = 0; c < rows.extent(1); ++c) {
        for (int64_t h = 0; h < layer.heads; ++h) same[h] = &rows(h * layer.width + i, c);
        f(same);
      }
    }
  }

  std::vector<Layer> layers_;
};

/// The query projections, larger by a factor.
void scale_queries(TrainableModel& model, float factor) {
  for (const AttentionSite& site : model.attentions()) {
    const std::string name = fmt::format("transformer.h.{}.attn.c_attn.weight", site.layer);
    const View<float, 2> all =
        std::ranges::find(model.tensors(), name, &StoredTensor::name)->parts[0].values;
    for (int64_t i = 0; i < static_cast<int64_t>(site.heads.size()) * site.head_dim; ++i) {
      for (int64_t c = 0; c < all.extent(0); ++c) all(c, i) *= factor;
    }
  }
}

json run(const std::string& name, const json& settings, const std::string& form, int64_t seed,
         TrialContext& context) {
  const SmallTask task = small_task(name, settings.at("data"), context);
  json shape = settings.at("model");
  const int64_t heads = shape.at("heads"), width = shape.at("width");
  FineTuneOptions training =
      small_training(settings.at("training"), order_seed(seed, context), context);
  if (form == kWide || form == kSummed) shape["heads"] = 1;
  if (form == kAveraged) {
    shape.update({{"head_dim", width / heads}, {"value_dim", width}});
    training.gates.assign(heads * shape.at("layers").get<int64_t>(), 1 / static_cast<float>(heads));
  }
  TrainableModel model =
      TrainableModel::create(small_config(task, shape), {.seed = init_seed(seed, context)});
  int64_t parameters = parameters_of(model);
  if (form == kSummed) scale_queries(model, std::sqrt(static_cast<float>(heads)));
  SharedValues shared(model);
  if (form == kAveraged) {
    shared.make_equal();
    training.before_step = [&] { shared.add_gradients(); };
    // Of equal values and outputs, one is counted; biases of values likewise.
    parameters -= (heads - 1) * shape.at("layers").get<int64_t>() * (2 * width * width + width);
  }
  fine_tune(task.train, training, model);
  return {{"loss", validation_loss(task, model, training.gates)}, {"parameters", parameters}};
}

/// The softmax of the sum of the scores of four heads against the one wide head of the same
/// projections: the largest difference of two weights.
json run_identity(int64_t width, int64_t heads, TrialContext& context) {
  constexpr int64_t kRows = 24;
  Random random(context.seed(), 3);
  std::vector<float> x(kRows * width);
  for (float& number : x) number = random.normal();
  MultiHeadAttentionWeights several({.width = width, .heads = heads});
  for (float& number : several.all()) {
    number = random.normal() / std::sqrt(static_cast<float>(width));
  }
  MultiHeadAttentionWeights one({.width = width, .heads = 1});
  std::ranges::copy(several.all(), one.all().begin());

  const View<const float, 2> rows(x.data(), {kRows, width});
  const std::array<int64_t, 2> offsets = {0, kRows};
  const float scale = 1 / std::sqrt(static_cast<float>(width / heads));
  MultiHeadAttention::Pass of_several, of_one;
  MultiHeadAttention(std::move(several)).project(rows, {}, of_several);
  const MultiHeadAttention wide(std::move(one));
  wide.project(rows, {}, of_one);
  std::vector<int64_t> all(kRows);
  for (int64_t row = 0; row < kRows; ++row) all[row] = row;
  const AttentionMaps maps = wide.maps(
      {.q = of_one.q, .k = of_one.k, .v = of_one.v, .q_offsets = offsets, .scale = scale}, all);

  double difference = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    std::vector<double> weights(kRows);
    double sum = 0;
    for (int64_t j = 0; j < kRows; ++j) {
      double score = 0;
      for (int64_t h = 0; h < heads; ++h) {
        double of_head = 0;
        for (int64_t d = 0; d < width / heads; ++d) {
          of_head += double{of_several.q(i, h, d)} * of_several.k(j, h, d);
        }
        score += of_head * scale;
      }
      sum += weights[j] = std::exp(score);
    }
    for (int64_t j = 0; j < kRows; ++j) {
      difference = std::max(difference, std::abs(weights[j] / sum - maps.row(i, 0)[j]));
    }
  }
  return {{"difference", difference}};
}

std::vector<ExperimentTrial> trials(const json& settings) {
  const json& shape = settings.at("tasks").begin()->at("model");
  const int64_t width = shape.at("width"), heads = shape.at("heads");
  std::vector<ExperimentTrial> trials = {{.name = "identity", .run = [=](TrialContext& context) {
                                            return run_identity(width, heads, context);
                                          }}};
  std::vector<std::string> forms(kShared.begin(), kShared.end());
  forms.insert(forms.begin(), kSeparate);
  for (int64_t seed = 0; seed < settings.at("seeds"); ++seed) {
    for (const auto& [task, of_task] : settings.at("tasks").items()) {
      for (const std::string& form : forms) {
        trials.push_back({.name = name_of(task, form, seed),
                          .run = [=, name = task, own = of_task](TrialContext& context) {
                            return run(name, own, form, seed, context);
                          }});
      }
    }
  }
  return trials;
}

Finding judge(const json& settings, const TrialResults& results) {
  const double smallest = settings.at("smallest");
  Finding finding{.figure_name =
                      "nats that the best shared form loses against separate softmaxes, "
                      "mean of tasks",
                  .n = settings.at("seeds"),
                  .plot = {.title = "Four heads with a softmax each, or with one that they share",
                           .x_label = "form of sharing",
                           .y_label = "validation loss, nats more than separate",
                           .x_names = {kShared.begin(), kShared.end()},
                           .y_marks = {0}}};
  const auto losses = [&](const std::string& task, const char* form) {
    std::vector<double> all;
    for (int64_t seed = 0; seed < finding.n; ++seed) {
      all.push_back(results.at(name_of(task, form, seed)).at("loss"));
    }
    return all;
  };
  std::vector<double> best_forms(finding.n);
  const auto tasks = static_cast<double>(settings.at("tasks").size());
  finding.why = "Mean validation loss: ";
  for (const auto& [task, of_task] : settings.at("tasks").items()) {
    const std::vector<double> separate = losses(task, kSeparate);
    finding.why += fmt::format("{}: {:.3f} separate", task, mean_of(separate).value);
    PlotSeries& series = finding.plot.series.emplace_back(PlotSeries{.name = task});
    std::vector<double> least;
    for (size_t form = 0; form < kShared.size(); ++form) {
      const std::vector<double> shared = losses(task, kShared[form]);
      const Estimate worse = paired_difference(shared, separate);
      finding.family.push_back(
          test_above(fmt::format("{}: {} worse than separate", task, kShared[form]), worse));
      finding.why += fmt::format(", {:.3f} {}", mean_of(shared).value, kShared[form]);
      PlotPoint& point =
          series.points.emplace_back(PlotPoint{.x = static_cast<double>(form), .y = worse.value});
      if (const auto interval = worse.interval()) {
        point.low = interval->low;
        point.high = interval->high;
      }
      if (least.empty() || mean_of(shared).value < mean_of(least).value) least = shared;
    }
    for (int64_t s = 0; s < finding.n; ++s) best_forms[s] += (least[s] - separate[s]) / tasks;
    finding.why += "; ";
  }
  const std::vector<Effect> effects = effects_of(finding.family, smallest);
  decide(effects, "the task and the form of sharing", finding);
  const Estimate figure = mean_of(best_forms);
  finding.figure = figure.value;
  finding.interval = figure.interval();
  finding.why += fmt::format(
      "sharing is worse by {} nats or more in {} of {} cases, and it is not in {}. The softmax of "
      "summed scores is one wide head: its weights differ by at most {:.1e}.",
      smallest, std::ranges::count(effects, Effect::there), effects.size(),
      std::ranges::count(effects, Effect::absent),
      results.at("identity").at("difference").get<double>());
  return finding;
}

}  // namespace

ExperimentKind separate_softmax() {
  return {.name = "separate-softmax", .trials = trials, .judge = judge};
}

}  // namespace headwise
