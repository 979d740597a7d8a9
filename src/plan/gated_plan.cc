// Trains gates under a price of open heads that is adjusted until as few are open as may stay.
#include "headwise/plan/gated_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/model/summary.h"
#include "io/folder_aside.h"
#include "model/model_source.h"
#include "plan/head_layout.h"
#include "plan/model_cost.h"
#include "plan/pruning_state.h"
#include "prune/pruned_folder.h"
#include "prune/trained_folder.h"

namespace headwise {
namespace {

/// The multiplier of a constraint on the expected number of open heads: it grows while too many are
/// open, and falls while too few are (Wang et al. 2020 prune so, to a target that comes down in the
/// course of the training).
class LagrangeMultiplier {
 public:
  LagrangeMultiplier(TrainableModel& model, int64_t heads_left)
      : model_(model), least_(static_cast<double>(heads_left)) {}

  /// The first price is one that the gradients can bear.
  void before_step() {
    if (scale_ == 0) scale_ = kFirst * level_of_gradients();
  }

  void after_step(int64_t done, int64_t steps) {
    const auto all = static_cast<double>(model_.heads());
    const double share = static_cast<double>(done) / static_cast<double>(steps);
    const double wanted = all + (least_ - all) * std::min(1., share / kDescent);
    const double too_many = (model_.open_gates() - wanted) / all;
    logarithm_ += kGrowth * too_many / static_cast<double>(steps);
    logarithm_ = std::clamp(logarithm_, -kMost, kMost);
    // Below 0 if far too few are open: closed gates have no gradient of their own to open them.
    model_.set_l0(scale_ * std::exp(logarithm_) * (1 + kDamping * too_many));
  }

 private:
  static constexpr double kDescent = 0.6;  // the share of the steps in which the target comes down
  static constexpr double kFirst = 0.1;    // of the price at which gradients are outweighed
  static constexpr double kGrowth = 400;   // 5 % too many for 5 % of the steps: e times the price
  static constexpr double kDamping = 20;   // 5 % too many: twice the price at once
  static constexpr double kMost = 12;

  /// The price whose gradient is as large as the mean one of the loss.
  double level_of_gradients() const {
    const Parameter& gates = model_.parameters().back();
    double sum = 0;
    for (const float gradient : gates.gradient) sum += std::abs(double{gradient});
    const double open = model_.open_gates() / static_cast<double>(model_.heads());
    const double slope = static_cast<double>(model_.heads()) * open * (1 - open);
    return sum / slope;
  }

  TrainableModel& model_;
  double least_;
  double scale_ = 0, logarithm_ = 0;
};

/// Of the gates: fast enough to close in a short training.
double rate_of_gates(int64_t steps) {
  return std::clamp(40 / static_cast<double>(std::max<int64_t>(1, steps)), 0.02, 0.2);
}

int64_t most_left(const GateOptions& options, int64_t all) {
  if (options.keep.has_value() == options.heads.has_value()) {
    throw Error({.what = "learned gates need a target number of heads",
                 .got = options.keep ? "a share and a number" : "none",
                 .expected = "a share of the heads, or a number"});
  }
  const int64_t most = options.keep ? heads_in_share(*options.keep, all) : *options.heads;
  if (most >= 0 && most <= all) return most;
  throw Error({.what = "so many heads cannot stay",
               .got = fmt::format("{}", most),
               .expected = fmt::format("0 to {}", all)});
}

/// The heads that go, those with the lowest gates first: until no more than `most` are left, and
/// beyond that those whose gates are 0.
std::vector<int64_t> masked_heads(const HeadLayout& layout, const GateOptions& options,
                                  int64_t most, std::span<const double> log_alpha,
                                  std::span<const float> gates) {
  PruningState left(layout, {.at_least = options.at_least, .uniform = options.uniform});
  std::vector<int64_t> gone;
  for (;;) {
    const std::vector<int64_t> step = left.next(log_alpha, most);
    const bool enough = left.left() <= most && left.level();
    const bool masked = std::ranges::all_of(step, [&](int64_t head) { return gates[head] == 0; });
    if (step.empty() || (enough && !masked)) break;
    left.drop(step);
    gone.insert(gone.end(), step.begin(), step.end());
  }
  if (left.left() <= most && left.level()) return gone;
  throw Error({.what = "so many heads cannot go",
               .got = fmt::format("{} of {} heads are to stay", most, layout.heads()),
               .expected = fmt::format("{} or more, within the constraints", left.left()),
               .hint = "the least number of every layer stays"});
}

}  // namespace

GatedPlan learn_plan(const Model& model, const EvaluationSet& set, const GateOptions& options) {
  const HeadLayout layout(model.config());
  const int64_t all = layout.heads(), most = most_left(options, all);
  const std::vector<double> any(all);
  (void)masked_heads(layout, options, most, any, std::vector<float>(all, 1));  // can it be done?
  const std::shared_ptr<FolderAside> aside = temporary_folder();
  write_pruned({.model = model, .gates = std::vector<float>(all, 1)}, PruneForm::masked,
               aside->path());

  TrainedFolder trained(aside->path(), set, model.load_options());
  TrainableModel& student = trained.model();
  student.learn_gates({.train_weights = options.train_weights,
                       .rate = rate_of_gates(fine_tune_steps(set.examples, options.training))});
  LagrangeMultiplier multiplier(student, most);
  FineTuneOptions training = options.training;
  training.before_step = [&] {
    multiplier.before_step();
    if (options.training.before_step) options.training.before_step();
  };
  training.progress = [&](int64_t done, int64_t steps, double loss) {
    multiplier.after_step(done, steps);
    if (options.training.progress) options.training.progress(done, steps, loss);
  };
  trained.learn(model, training);

  Plan plan{.order = "gates"};
  std::map<std::string, float> learned;
  const std::vector<float> gates = student.learned_gates();
  const auto values = student.parameters().back().values;
  const std::vector<double> log_alpha(values.begin(), values.end());
  std::vector<uint8_t> kept(all, 1);
  for (const int64_t head : masked_heads(layout, options, most, log_alpha, gates)) {
    kept[head] = 0;
    plan.drop.push_back(layout.name(head));
  }
  for (int64_t head = 0; head < all; ++head) {
    learned[layout.name(head)] = gates[head];
    if (kept[head]) plan.keep.push_back(layout.name(head));
  }
  student.fold_gates();
  trained.write();
  expect_heads(kept, plan.expected);
  expect_cost(summarize(model.folder()), kept, plan.expected);
  Model gated = read_model(aside->path(), model.load_options());
  ModelSource::of(gated).keep(aside);
  ModelSource::of(gated).set_name(model.name());
  return {.plan = std::move(plan), .gates = std::move(learned), .model = std::move(gated)};
}

}  // namespace headwise
