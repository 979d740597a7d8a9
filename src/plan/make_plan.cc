// Walks along an order until the budget is met.
#include "headwise/plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/seed.h"
#include "headwise/judge/judge.h"
#include "headwise/model/summary.h"
#include "headwise/observe/importance.h"
#include "headwise/plan/support.h"
#include "observe/loss_table.h"
#include "plan/forward_time.h"
#include "plan/head_layout.h"
#include "plan/head_orders.h"
#include "plan/model_cost.h"
#include "plan/model_quality.h"
#include "plan/neighbours.h"
#include "plan/pruning_state.h"
#include "plan/speed_search.h"

namespace headwise {
namespace {

enum : uint32_t { kDraw = 0x7102 };
constexpr int64_t kNeighbours = 10, kMostNeighbourTexts = 512;

/// The heads that go along an order, as far as was asked for.
class RemovalSequence {
 public:
  /// What heads are ordered by, [heads], with what is kept; the lowest goes first.
  using Values = std::function<std::vector<double>(std::span<const uint8_t> kept)>;

  /// The values are asked for again after every `again` heads; 0: never.
  RemovalSequence(PruningState whole, Values values, int64_t again)
      : state_(std::move(whole)), ask_(std::move(values)), again_(again) {}

  /// Goes one step farther, to one that leaves `enough` heads if it can be; false if no more may
  /// go.
  bool extend(int64_t enough = 0) {
    if (values_.empty() || (again_ > 0 && since_ >= again_)) {
      values_ = ask_(state_.kept());
      since_ = 0;
    }
    const std::vector<int64_t> step = state_.next(values_, enough);
    if (step.empty()) return false;
    state_.drop(step);
    since_ += std::ssize(step);
    heads_.insert(heads_.end(), step.begin(), step.end());
    ends_.push_back(std::ssize(heads_));
    return true;
  }

  std::span<const int64_t> heads() const { return heads_; }  // those that go first are first
  std::span<const int64_t> ends() const { return ends_; }    // of steps, among the heads

  bool level() const { return state_.level(); }  // see PruningState

  /// How many go in the longest row of steps of at most so many heads.
  int64_t steps_within(int64_t most) const {
    return *std::prev(std::ranges::upper_bound(ends_, most));
  }

 private:
  PruningState state_;
  Values ask_;
  int64_t again_, since_ = 0;
  std::vector<double> values_;
  std::vector<int64_t> heads_;
  std::vector<int64_t> ends_ = {0};
};

class Planner {
 public:
  /// `model` may be null.
  Planner(const Model* model, const Verdict& verdict, const PlanOptions& options,
          const PlanData& data)
      : model_(model),
        verdict_(verdict),
        options_(options),
        data_(data),
        order_(options.order.value_or(default_order(verdict))) {
    check();
    if (model != nullptr) summary_ = summarize(model->folder());
    layout_ = summary_ ? HeadLayout(summary_->config) : HeadLayout(verdict);
    for (const HeadVerdict& head : verdict.heads) (void)layout_->find(head.head);
    stays_.resize(layout_->heads());
    for (const std::string& role : options.keep_roles) {
      for (const std::string& head : heads_of_role(verdict, role)) stays_[layout_->find(head)] = 1;
    }
    if (model != nullptr && data.evaluation != nullptr) quality_.emplace(*model, *data.evaluation);
    const EvaluationSet* const reported =
        data.held_out != nullptr ? data.held_out : data.evaluation;
    if (model != nullptr && reported != nullptr && reported->size() > 0) {
      reported_.emplace(*model, *reported);
    }
  }

  Plan run() {
    const std::vector<int64_t> gone = options_.drop.empty() ? walk() : listed();
    Plan plan{.order = options_.drop.empty() ? std::string(to_string(order_)) : "list"};
    if (reported_) plan.task = to_string(reported_->set().task);
    const std::vector<uint8_t> kept = without(gone);
    for (const int64_t head : gone) plan.drop.push_back(layout_->name(head));
    for (int64_t head = 0; head < layout_->heads(); ++head) {
      if (kept[head]) plan.keep.push_back(layout_->name(head));
    }
    estimate_cost(kept, plan.expected);
    if (reported_) measure(gone, plan);
    if (!options_.curves.empty() && reported_) draw_curves(plan.curves);
    assess(verdict_, plan);
    return plan;
  }

 private:
  void check() const {
    const int budgets = options_.keep.has_value() + options_.heads.has_value() +
                        options_.speedup.has_value() + options_.max_loss.has_value() +
                        !options_.drop.empty();
    if (budgets > 1 || (budgets == 0 && options_.keep_roles.empty())) {
      throw Error({.what = "a plan has one budget",
                   .got = fmt::format("{}", budgets),
                   .expected = "keep, heads, speedup, max_loss or drop; or roles to keep"});
    }
    const auto in_range = [](const char* name, std::optional<double> value, double low,
                             double high) {
      if (!value || (*value >= low && *value <= high)) return;
      throw Error({.what = "the budget is out of range",
                   .where = name,
                   .got = fmt::format("{}", *value),
                   .expected = std::isinf(high) ? fmt::format("at least {}", low)
                                                : fmt::format("{} to {}", low, high)});
    };
    constexpr double kAny = std::numeric_limits<double>::infinity();
    in_range("keep", options_.keep, 0, 1);
    in_range("heads", options_.heads, 0, kAny);
    in_range("speedup", options_.speedup, 1, kAny);
    in_range("max_loss", options_.max_loss, 0, kAny);
    in_range("at_least", static_cast<double>(options_.at_least), 0, kAny);
    in_range("step", static_cast<double>(options_.step), 1, kAny);
    in_range("draws", static_cast<double>(options_.draws), 1, kAny);
    in_range("random_sets", static_cast<double>(options_.random_sets), 0, kAny);
    in_range("points", static_cast<double>(options_.points), 2, kAny);
    in_range("more_points", static_cast<double>(options_.more_points), 0, kAny);
    if (options_.uniform && !options_.drop.empty()) {
      throw Error({.what = "heads that are named cannot be chosen evenly",
                   .where = "uniform",
                   .expected = "another budget than a list of heads"});
    }
    const bool measures = model_ != nullptr && data_.evaluation != nullptr;
    if (options_.max_loss && !measures)
      need("max_loss", "a model, and data to measure its loss on");
    if (walks_greedily() && !measures) need("greedy", "a model, and data to measure its loss on");
    if (!options_.curves.empty() && !measures && data_.held_out == nullptr)
      need("curves", "a model, and data to measure on");
    if (options_.speedup && model_ == nullptr) need("speedup", "a model to time");
    if (options_.uniform && model_ == nullptr) {
      need("uniform", "the model, which says how heads share keys and biases");
    }
  }

  bool walks_greedily() const { return order_ == HeadOrder::greedy && options_.drop.empty(); }

  [[noreturn]] static void need(const char* where, const char* expected) {
    throw Error({.what = "the verdict does not say this, it must be measured",
                 .where = where,
                 .expected = expected});
  }

  PruningState whole() const {
    return PruningState(
        *layout_, {.at_least = options_.at_least, .uniform = options_.uniform, .stays = stays_});
  }

  /// The path of an order; of random, that of a draw, the first of which plans are made from.
  RemovalSequence& sequence(HeadOrder order, uint64_t draw = 0) {
    const std::pair key(order, draw);
    if (const auto at = sequences_.find(key); at != sequences_.end()) return at->second;
    RemovalSequence::Values values;
    if (order == HeadOrder::greedy) {
      values = [this](std::span<const uint8_t> kept) {
        std::vector<double> changes = quality_->changes(kept, progress("greedy"));
        put_undecided_last(verdict_, *layout_, changes);
        return changes;
      };
    } else {
      values = [this, order, seed = derived_seed(options_.seed, draw, 0, kDraw)](auto) {
        std::vector<double> values = order_values(order, verdict_, *layout_, seed);
        if (order != HeadOrder::random) put_undecided_last(verdict_, *layout_, values);
        return values;
      };
    }
    const int64_t again = order == HeadOrder::greedy ? options_.step : 0;
    return sequences_.emplace(key, RemovalSequence(whole(), std::move(values), again))
        .first->second;
  }

  std::vector<uint8_t> without(std::span<const int64_t> heads) const {
    std::vector<uint8_t> kept(layout_->heads(), 1);
    for (const int64_t head : heads) kept[head] = 0;
    return kept;
  }

  ModelQuality::Progress progress(const char* step) const {
    if (!data_.progress) return {};
    return [this, step](int64_t done, int64_t total) { data_.progress(step, done, total); };
  }

  /// Says how far the whole is, so that it can be stopped in the midst of a part.
  ModelQuality::Progress at(const char* step, int64_t heads) const {
    if (!data_.progress) return {};
    return [=, this](int64_t, int64_t) { data_.progress(step, heads, layout_->heads()); };
  }

  /// The heads that are named, if they may go.
  std::vector<int64_t> listed() const {
    PruningState left = whole();
    std::vector<int64_t> gone;
    for (const std::string& name : heads_of_list(verdict_, options_.drop)) {
      const int64_t head = layout_->find(name);
      if (stays_[head]) {
        throw Error({.what = "a head is to go that has a role to be kept", .got = name});
      }
      if (!left.may_go(head)) {
        const std::string& site = layout_->sites[layout_->site(head)].name;
        throw Error({.what = "a layer would be left with too few heads",
                     .where = site,
                     .got = fmt::format("{} of its heads are named", named_in(site)),
                     .expected = fmt::format("at least {} that stay", options_.at_least),
                     .hint = "if at least 0 are to stay, all may go"});
      }
      gone.push_back(head);
      left.drop({&head, 1});
    }
    return gone;
  }

  int64_t named_in(const std::string& site) const {
    return std::ranges::count_if(
        heads_of_list(verdict_, options_.drop),
        [&](const std::string& head) { return head.starts_with(site + ".H"); });
  }

  /// Along the order, until the budget is met.
  std::vector<int64_t> walk() {
    RemovalSequence& sequence = this->sequence(order_);
    int64_t count = 0;
    if (options_.max_loss) {
      count = walk_to_loss(sequence);
    } else if (options_.speedup) {
      count = walk_to_speed(sequence);
    } else {
      count = walk_to_number(sequence);
    }
    const std::span<const int64_t> heads = sequence.heads().first(count);
    PruningState left = whole();
    left.drop(heads);
    if (!left.level()) {
      throw Error({.what = "the heads cannot be made uniform within the budget and constraints",
                   .got = "layers with different numbers of heads, or groups of different sizes",
                   .hint = "let more heads go, or fewer heads stay in every layer"});
    }
    return {heads.begin(), heads.end()};
  }

  int64_t walk_to_number(RemovalSequence& sequence) const {
    const int64_t all = layout_->heads();
    int64_t most = 0;  // that stay
    if (options_.keep) {
      most = heads_in_share(*options_.keep, all);
    } else if (options_.heads) {
      most = *options_.heads;
    }
    const auto left = [&] { return all - sequence.ends().back(); };
    while ((left() > most || !sequence.level()) && sequence.extend(most)) {
    }
    if (left() > most && (options_.keep || options_.heads)) {
      throw Error({.what = "so many heads cannot go",
                   .got = fmt::format("{} of {} heads are to stay", most, all),
                   .expected = fmt::format("{} or more, within the constraints", left()),
                   .hint = "heads of roles to be kept, heads that were not measured, and the "
                           "least number of every layer stay"});
    }
    return sequence.ends().back();
  }

  /// Every step is measured: losses need not rise steadily, so that the first step beyond the limit
  /// cannot be found by halving.
  int64_t walk_to_loss(RemovalSequence& sequence) {
    const LossTask task = quality_->set().task;
    const auto loss = [&](std::span<const int64_t> heads) {
      const std::vector<std::vector<uint8_t>> choice = {without(heads)};
      return quality_->measure(choice, false, at("loss", std::ssize(heads)))[0].loss;
    };
    const double before = loss({});
    const double limit = before + tolerance_of(task, before, *options_.max_loss);
    int64_t count = 0;
    while (sequence.extend() && loss(sequence.heads()) <= limit) count = sequence.ends().back();
    return count;
  }

  int64_t walk_to_speed(RemovalSequence& sequence) {
    time_.emplace(*model_, [this] {
      if (data_.progress) data_.progress("time", 0, 1);
    });
    while (!sequence.level() && sequence.extend()) {
    }
    const auto can_go = [&](int64_t steps) {
      return steps < std::ssize(sequence.ends()) || sequence.extend();
    };
    const auto kept = [&](int64_t steps) {
      return without(sequence.heads().first(sequence.ends()[steps]));
    };
    double fastest = 1;
    const std::optional<FoundSpeed> found = search_speed(
        {.wanted = *options_.speedup,
         .first = std::ssize(sequence.ends()) - 1,
         .can_go = can_go,
         .predicted = [&](int64_t steps) { return time_->predicted_speedup(kept(steps)); },
         .measured = [&](int64_t steps) { return time_->measured_speedup(kept(steps)); }},
        fastest);
    if (!found) {
      throw Error(
          {.what = "no plan makes the model so fast",
           .where = "speedup",
           .got = fmt::format("{}", *options_.speedup),
           .expected = fmt::format("at most {:.2f}, with all heads gone that may go", fastest),
           .hint = "heads are only a part of the work"});
    }
    speedup_ = found->speedup;
    return sequence.ends()[found->steps];
  }

  void estimate_cost(std::span<const uint8_t> kept, Expected& expected) {
    expect_heads(kept, expected);
    if (summary_) expect_cost(*summary_, kept, expected);
    if (options_.speedup) {
      expected["speedup"] = speedup_;
      expected["speedup_predicted"] = time_->predicted_speedup(kept);
    }
  }

  /// The loss without the heads that go, and on held-out examples all that is said about it.
  void measure(std::span<const int64_t> gone, Plan& plan) {
    std::vector<std::vector<uint8_t>> choices = {without(gone)};
    if (data_.held_out != nullptr && !gone.empty()) {
      for (int64_t draw = 0; draw < options_.random_sets; ++draw) {
        // A plan of the random order is made from the first draw.
        const int64_t own = order_ == HeadOrder::random ? 1 : 0;
        choices.push_back(without(random_heads(std::ssize(gone), draw + own)));
      }
    }
    const ModelQuality::Comparison measured = reported_->compare(choices, progress("loss"));
    const ModelQuality::Change& change = measured.changes.front();
    const ModelQuality::Quality &before = measured.before, &after = change.quality;
    expect("loss", before.loss, after.loss, plan.expected);
    if (before.score && after.score) {
      expect(reported_->score_name(), *before.score, *after.score, plan.expected);
    }
    if (data_.held_out == nullptr) return;
    const EvaluationSet& set = *data_.held_out;
    HeldOut& held_out = plan.held_out.emplace();
    held_out = {.examples = set.size() / set.masks,
                .chosen_on = data_.evaluation == nullptr
                                 ? 0
                                 : data_.evaluation->size() / data_.evaluation->masks,
                .task = std::string(to_string(set.task)),
                .loss = {before.loss, after.loss},
                .change = change.change,
                .interval = change.interval,
                .tokens = measured.tokens,
                .masks = set.masks};
    std::vector<double> at_random;
    for (size_t i = 1; i < measured.changes.size(); ++i) {
      at_random.push_back(measured.changes[i].change);
      held_out.random.change += measured.changes[i].change;
    }
    if (!at_random.empty()) {
      held_out.random.draws = std::ssize(at_random);
      held_out.random.change /= static_cast<double>(at_random.size());
      std::ranges::sort(at_random);
      held_out.random.median = quantile(at_random, 0.5);
    }
    if (before.score && after.score) {
      held_out.score_name = reported_->score_name();
      held_out.score = {*before.score, *after.score};
    }
    if (scores_tokens(set.task)) {
      held_out.perplexity = {std::exp(before.loss), std::exp(after.loss)};
    } else {
      compare_outputs(choices.front(), held_out);
    }
  }

  /// Neighbours among texts, and labels.
  void compare_outputs(std::span<const uint8_t> kept, HeldOut& held_out) const {
    const std::vector<uint8_t> all(kept.size(), 1);
    const auto progress = this->progress("loss");
    const ModelQuality::Outputs before = reported_->outputs(all, kMostNeighbourTexts, progress),
                                after = reported_->outputs(kept, kMostNeighbourTexts, progress);
    const auto n = std::ssize(before.embeddings);
    const int64_t of = std::min(kNeighbours, (n - 1) / 2);
    if (of > 0 && reported_->set().task != LossTask::classify) {
      held_out.neighbours = {.of = of,
                             .kept = kept_neighbours(before.embeddings, after.embeddings, of)};
    }
    if (before.labels.empty()) return;
    int64_t equal = 0;
    for (int64_t i = 0; i < n; ++i) equal += before.labels[i] == after.labels[i];
    held_out.agreement = static_cast<double>(equal) / static_cast<double>(n);
  }

  /// The heads that go in a random order, as many or the nearest steps beyond.
  std::span<const int64_t> random_heads(int64_t count, int64_t draw) {
    RemovalSequence& sequence = this->sequence(HeadOrder::random, draw);
    const int64_t enough = layout_->heads() - count;
    while (sequence.ends().back() < count && sequence.extend(enough)) {
    }
    const auto end = std::ranges::lower_bound(sequence.ends(), count);
    return sequence.heads().first(end == sequence.ends().end() ? sequence.ends().back() : *end);
  }

  /// One order, or a draw of the random one.
  struct Curve {
    HeadOrder order;
    RemovalSequence* sequence;
    std::vector<CurvePoint> points{};
  };

  void draw_curves(std::map<std::string, std::vector<CurvePoint>>& curves) {
    std::set<HeadOrder> orders(options_.curves.begin(), options_.curves.end());
    orders.insert(HeadOrder::random);
    std::vector<Curve> drawn;
    for (const HeadOrder order : orders) {
      const int64_t draws = order == HeadOrder::random ? options_.draws : 1;
      for (int64_t draw = 0; draw < draws; ++draw) {
        RemovalSequence& sequence = this->sequence(order, draw);
        while (sequence.extend()) {
        }
        drawn.push_back({.order = order, .sequence = &sequence});
      }
    }
    std::vector<std::pair<Curve*, int64_t>> points;
    for (Curve& curve : drawn) {
      for (const int64_t count : even_points(*curve.sequence)) points.emplace_back(&curve, count);
    }
    add_points(points);
    points.clear();
    for (Curve& curve : drawn) {
      if (curve.order == HeadOrder::random) continue;
      for (const int64_t count : bends(*curve.sequence, curve.points))
        points.emplace_back(&curve, count);
    }
    add_points(points);
    for (const HeadOrder order : orders) {
      std::vector<std::vector<CurvePoint>> of_order;
      for (const Curve& curve : drawn) {
        if (curve.order == order) of_order.push_back(curve.points);
      }
      curves[std::string(to_string(order))] = mean(of_order);
    }
  }

  /// Of masked LM on the first mask of every text.
  ModelQuality& curve_quality() {
    const EvaluationSet& set = reported_->set();
    if (set.masks == 1) return *reported_;
    if (!curve_quality_) {
      std::vector<int64_t> first;
      for (int64_t x = 0; x < set.size(); x += set.masks) first.push_back(x);
      curve_set_ = examples_of(set, first);
      curve_set_->masks = 1;
      curve_quality_.emplace(*model_, *curve_set_);
    }
    return *curve_quality_;
  }

  /// Measures the model without the first heads of paths, for these numbers of heads.
  void add_points(const std::vector<std::pair<Curve*, int64_t>>& points) {
    if (points.empty()) return;
    std::vector<std::vector<uint8_t>> choices;
    for (const auto& [curve, count] : points) {
      choices.push_back(without(curve->sequence->heads().first(count)));
    }
    const std::vector<ModelQuality::Quality> qualities =
        curve_quality().measure(choices, true, progress("curves"));
    for (size_t i = 0; i < points.size(); ++i) {
      Curve& curve = *points[i].first;
      curve.points.push_back(
          {.removed = points[i].second, .loss = qualities[i].loss, .score = qualities[i].score});
      std::ranges::sort(curve.points, {}, &CurvePoint::removed);
    }
  }

  /// Numbers of heads from none to all that may go; the same for all paths of equal steps.
  std::vector<int64_t> even_points(const RemovalSequence& sequence) const {
    std::vector<int64_t> points;
    const int64_t all = sequence.ends().back(), gaps = options_.points - 1;
    for (int64_t i = 0; i <= gaps; ++i) {
      const int64_t count = sequence.steps_within((all * i + gaps / 2) / gaps);
      if (points.empty() || points.back() < count) points.push_back(count);
    }
    return points;
  }

  /// The middles of the gaps beside which the slope of a curve changes most.
  std::vector<int64_t> bends(const RemovalSequence& sequence,
                             const std::vector<CurvePoint>& curve) const {
    struct Gap {
      int64_t middle;
      double bend;
    };
    const auto slope = [&](size_t i) {  // of gap i, from point i to the next
      return (curve[i + 1].loss - curve[i].loss) /
             static_cast<double>(curve[i + 1].removed - curve[i].removed);
    };
    std::vector<Gap> gaps;
    for (size_t i = 0; i + 1 < curve.size(); ++i) {
      const int64_t middle = sequence.steps_within((curve[i].removed + curve[i + 1].removed) / 2);
      if (middle == curve[i].removed) continue;
      double change = 0;
      if (i > 0) change = std::max(change, std::abs(slope(i) - slope(i - 1)));
      if (i + 2 < curve.size()) change = std::max(change, std::abs(slope(i + 1) - slope(i)));
      gaps.push_back(
          {middle, change * static_cast<double>(curve[i + 1].removed - curve[i].removed)});
    }
    std::ranges::stable_sort(gaps, std::ranges::greater(), &Gap::bend);
    gaps.resize(std::min<size_t>(gaps.size(), options_.more_points));
    std::vector<int64_t> middles;
    for (const Gap& gap : gaps) middles.push_back(gap.middle);
    return middles;
  }

  /// Of several draws, whose steps may differ where groups of heads go: point by point, as far as
  /// all have them.
  static std::vector<CurvePoint> mean(const std::vector<std::vector<CurvePoint>>& drawn) {
    std::vector<CurvePoint> means;
    size_t shortest = drawn.front().size();
    for (const auto& curve : drawn) shortest = std::min(shortest, curve.size());
    const auto n = static_cast<double>(drawn.size());
    for (size_t i = 0; i < shortest; ++i) {
      double removed = 0, loss = 0, score = 0;
      for (const auto& curve : drawn) {
        removed += static_cast<double>(curve[i].removed) / n;
        loss += curve[i].loss / n;
        score += curve[i].score.value_or(0) / n;
      }
      CurvePoint& point = means.emplace_back();
      point = {.removed = std::llround(removed), .loss = loss};
      if (drawn.front()[i].score) point.score = score;
    }
    return means;
  }

  const Model* model_;
  const Verdict& verdict_;
  const PlanOptions& options_;
  const PlanData& data_;
  std::optional<ModelSummary> summary_;
  std::optional<HeadLayout> layout_;
  std::vector<uint8_t> stays_;
  HeadOrder order_;
  std::optional<ModelQuality> quality_;        // by which heads are chosen
  std::optional<ModelQuality> reported_;       // what is said about the plan
  std::optional<ModelQuality> curve_quality_;  // of curve_set_
  std::optional<ForwardTime> time_;
  std::optional<EvaluationSet> curve_set_;
  double speedup_ = 1;  // measured
  std::map<std::pair<HeadOrder, uint64_t>, RemovalSequence> sequences_;
};

}  // namespace

Plan plan(const Model& model, const Verdict& verdict, const PlanOptions& options,
          const PlanData& data) {
  return Planner(&model, verdict, options, data).run();
}

Plan plan(const Verdict& verdict, const PlanOptions& options) {
  return Planner(nullptr, verdict, options, {}).run();
}

}  // namespace headwise
