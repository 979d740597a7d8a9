// Plans: orders, budgets and constraints from verdicts, and what is measured against plain passes
// with gates.
#include "headwise/plan/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "headwise/judge/judge.h"
#include "headwise/model/summary.h"
#include "plan/model_cost.h"
#include "plan/plan_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::filesystem::path golden(const std::string& name) { return golden_folder() / "models" / name; }

std::string message(const Verdict& verdict, const PlanOptions& options,
                    const Model* model = nullptr, const PlanData& data = {}) {
  try {
    (void)(model != nullptr ? plan(*model, verdict, options, data) : plan(verdict, options));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Verdict four_heads() {
  Verdict verdict = verdict_of(grid_names(2, 2));
  const double gradients[] = {3, 1, 2, 4}, ablations[] = {-1, 5, 0, 2}, entropies[] = {1, 2, 4, 3};
  for (size_t h = 0; h < 4; ++h) {
    verdict.heads[h].importance = {.gradient = gradients[h], .entropy = entropies[h]};
    verdict.heads[h].importance.ablation_zero = Measure{.value = ablations[h]};
  }
  return verdict;
}

TEST(MakePlan, HeadsGoInOrder) {
  const Verdict verdict = four_heads();
  const auto drop = [&](HeadOrder order) {
    return plan(verdict, {.heads = 0, .order = order, .at_least = 0}).drop;
  };
  EXPECT_THAT(drop(HeadOrder::gradient), ElementsAre("L0.H1", "L1.H0", "L0.H0", "L1.H1"));
  EXPECT_THAT(drop(HeadOrder::ablation), ElementsAre("L0.H0", "L1.H0", "L1.H1", "L0.H1"));
  EXPECT_THAT(drop(HeadOrder::entropy), ElementsAre("L1.H0", "L1.H1", "L0.H1", "L0.H0"));
  const Plan made = plan(verdict, {.heads = 2});
  EXPECT_EQ(made.order, "ablation") << "the default where it was measured";
  EXPECT_THAT(made.drop, ElementsAre("L0.H0", "L1.H0"));
  EXPECT_THAT(made.keep, ElementsAre("L0.H1", "L1.H1"));
  EXPECT_EQ(made.expected, (std::map<std::string, double>{{"heads", 2}, {"heads_before", 4}}));
}

TEST(MakePlan, GoesByGradientsWithoutAblations) {
  Verdict verdict = four_heads();
  for (HeadVerdict& head : verdict.heads) head.importance.ablation_zero.reset();
  const Plan made = plan(verdict, {.heads = 2});
  EXPECT_EQ(made.order, "gradient");
  EXPECT_THAT(made.drop, ElementsAre("L0.H1", "L1.H0"));
}

/// Ablations -1, 5, 0, 2, gradients 3, 1, 2, 4.
TEST(MakePlan, UndecidedHeadsGoAfterAllButEssentialOnes) {
  Verdict verdict = four_heads();
  verdict.heads[0].standing = Standing::undecided;
  verdict.heads[1].standing = Standing::replaceable;
  verdict.heads[2].standing = Standing::essential;
  verdict.heads[3].standing = Standing::replaceable;
  const auto drop = [&](HeadOrder order) {
    return plan(verdict, {.heads = 0, .order = order, .at_least = 0}).drop;
  };
  EXPECT_THAT(drop(HeadOrder::ablation), ElementsAre("L1.H1", "L0.H1", "L0.H0", "L1.H0"));
  EXPECT_THAT(drop(HeadOrder::gradient), ElementsAre("L0.H1", "L1.H1", "L0.H0", "L1.H0"));
  Verdict unknown = four_heads();
  EXPECT_EQ(plan(unknown, {.heads = 2, .order = HeadOrder::random}).drop,
            plan(verdict, {.heads = 2, .order = HeadOrder::random}).drop)
      << "the control";
}

TEST(MakePlan, DuplicatesGoFirst) {
  Verdict verdict = four_heads();
  verdict.clusters = {{"L1.H1", "L0.H1"}, {"L0.H0"}};
  EXPECT_THAT(plan(verdict, {.heads = 0, .order = HeadOrder::redundant_first, .at_least = 0}).drop,
              ElementsAre("L0.H1", "L0.H0", "L1.H0", "L1.H1"));
  verdict.clusters = {{"L1.H0", "L1.H1", "L0.H1"}};  // the least important first
  EXPECT_THAT(plan(verdict, {.heads = 0, .order = HeadOrder::redundant_first, .at_least = 0}).drop,
              ElementsAre("L1.H1", "L0.H1", "L0.H0", "L1.H0"));
}

TEST(MakePlan, RandomDependsOnTheSeedAlone) {
  const Verdict verdict = verdict_of(grid_names(4, 8));
  const auto drop = [&](uint64_t seed) {
    return plan(verdict, {.keep = 0.5, .order = HeadOrder::random, .seed = seed}).drop;
  };
  EXPECT_EQ(drop(1), drop(1));
  EXPECT_NE(drop(1), drop(2));
}

/// Every plan of any verdict: a partition of the heads, within its constraints and its budget.
TEST(MakePlan, HonoursItsConstraints) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::vector<std::string> names = grid_names(1 + random.below(5), 1 + random.below(6));
    const Verdict verdict = random_verdict(names, seed);
    const HeadOrder orders[] = {HeadOrder::gradient, HeadOrder::ablation, HeadOrder::entropy,
                                HeadOrder::random, HeadOrder::redundant_first};
    PlanOptions options{.order = orders[seed % 5], .at_least = random.below(3), .seed = seed};
    if (random.below(2) == 0) options.keep_roles = {"previous"};
    const int64_t all = std::ssize(names);
    int64_t most = all;
    if (random.below(2) == 0) {
      options.keep = random.uniform();
      most = static_cast<int64_t>(*options.keep * static_cast<double>(all));
    } else {
      most = *(options.heads = random.below(static_cast<uint32_t>(all + 1)));
    }
    std::set<std::string> stay;
    for (const HeadVerdict& head : verdict.heads) {
      if (!options.keep_roles.empty() && head.has("previous")) stay.insert(head.head);
    }
    // What has to stay in the end, whatever the order.
    int64_t least = 0;
    std::map<std::string, std::pair<int64_t, int64_t>> layers;  // heads, those that stay
    for (const std::string& name : names) {
      auto& [heads, fixed] = layers[name.substr(0, name.find('.'))];
      ++heads;
      fixed += stay.contains(name);
    }
    for (const auto& [name, layer] : layers) {
      least += std::max(layer.second, std::min(layer.first, options.at_least));
    }
    if (most < least) {
      EXPECT_THAT(message(verdict, options), HasSubstr("cannot go"));
      continue;
    }
    const Plan made = plan(verdict, options);
    std::set<std::string> parts(made.keep.begin(), made.keep.end());
    EXPECT_LE(std::ssize(made.keep), most);
    EXPECT_EQ(std::ssize(made.keep), std::max(least, most)) << "no more go than asked for";
    for (const std::string& head : stay) EXPECT_TRUE(parts.contains(head)) << head;
    std::map<std::string, int64_t> kept;
    for (const std::string& head : made.keep) ++kept[head.substr(0, head.find('.'))];
    for (const auto& [name, layer] : layers) {
      EXPECT_GE(kept[name], std::min(layer.first, options.at_least)) << name;
    }
    parts.insert(made.drop.begin(), made.drop.end());
    EXPECT_EQ(parts, std::set<std::string>(names.begin(), names.end()));
    EXPECT_EQ(made.keep.size() + made.drop.size(), names.size());
  }
}

TEST(MakePlan, RolesAloneAreABudget) {
  Verdict verdict = four_heads();
  verdict.heads[1].roles.push_back({.role = "previous"});
  EXPECT_THAT(plan(verdict, {.at_least = 0, .keep_roles = {"positional"}}).keep,
              ElementsAre("L0.H1"));
  EXPECT_THAT(plan(verdict, {.keep_roles = {"previous"}}).keep, ElementsAre("L0.H1", "L1.H1"));
}

TEST(MakePlan, TakesListsAndRoles) {
  Verdict verdict = four_heads();
  verdict.heads[3].roles.push_back({.role = "delimiter"});
  const Plan made = plan(verdict, {.drop = "role:delimiter,L0.H1"});
  EXPECT_EQ(made.order, "list");
  EXPECT_THAT(made.drop, ElementsAre("L1.H1", "L0.H1"));
  EXPECT_THAT(message(verdict, {.drop = "L0"}), HasSubstr("L0"));
  EXPECT_EQ(plan(verdict, {.drop = "L0", .at_least = 0}).drop.size(), 2);
  EXPECT_THAT(message(verdict, {.drop = "L1.H1", .keep_roles = {"delimiter"}}), HasSubstr("L1.H1"));
}

TEST(MakePlan, SaysWhatIsMissing) {
  const Verdict verdict = four_heads();
  EXPECT_THAT(message(verdict, {}), HasSubstr("one budget"));
  EXPECT_THAT(message(verdict, {.keep = 0.5, .heads = 2}), HasSubstr("one budget"));
  EXPECT_THAT(message(verdict, {.keep = 1.5}), HasSubstr("0 to 1"));
  EXPECT_THAT(message(verdict, {.keep = -0.5}), HasSubstr("0 to 1"));
  EXPECT_THAT(message(verdict, {.speedup = 0.5}), HasSubstr("at least 1"));
  EXPECT_THAT(message(verdict, {.speedup = 2}), HasSubstr("a model"));
  EXPECT_THAT(message(verdict, {.max_loss = 0.1}), HasSubstr("data"));
  EXPECT_THAT(message(verdict, {.keep = 0.5, .uniform = true}), HasSubstr("the model"));
  EXPECT_THAT(message(verdict, {.keep = 0.5, .order = HeadOrder::greedy}), HasSubstr("data"));
  EXPECT_THAT(message(verdict, {.keep = 0.5, .curves = {HeadOrder::gradient}}), HasSubstr("data"));
  EXPECT_THAT(message(verdict, {.drop = "L0.H0", .uniform = true}), HasSubstr("evenly"));
  EXPECT_THAT(message(verdict, {.heads = 1}), HasSubstr("2 or more"));
  EXPECT_THAT(message(verdict_of(grid_names(2, 2)), {.keep = 0.5}), HasSubstr("observe"));
  const Model marian = load(golden("marian"));
  EXPECT_THAT(message(verdict, {.keep = 0.5}, &marian), HasSubstr("L0.H0"));
  EXPECT_THAT(message(verdict_of({"heads"}), {.keep = 0.5}), HasSubstr("heads"));
  EXPECT_THROW(head_order("alphabetic"), Error);
  EXPECT_EQ(head_order("redundant-first"), HeadOrder::redundant_first);
}

/// What summarize counts in a folder that was written without heads.
TEST(MakePlan, CountsWhatAPrunedFolderHolds) {
  for (const char* name : {"bert", "roberta", "distilbert", "electra", "mpnet", "gpt2", "gpt_neox",
                           "llama", "mistral", "qwen2", "qwen3", "smollm3", "marian", "t5"}) {
    SCOPED_TRACE(name);
    const ModelSummary whole = summarize(golden(name));
    const ModelSummary pruned = summarize(golden(std::string(name) + "_pruned"));
    std::vector<uint8_t> kept;
    for (size_t s = 0; s < whole.attentions.size(); ++s) {
      const std::vector<int32_t>& left = pruned.attentions[s].site.heads;
      for (const int32_t head : whole.attentions[s].site.heads) {
        kept.push_back(std::ranges::find(left, head) != left.end());
      }
    }
    const std::vector<uint8_t> all(kept.size(), 1);
    EXPECT_EQ(cost_of(whole, all).parameters, whole.parameters);
    EXPECT_EQ(cost_of(whole, kept).parameters, pruned.parameters);
    const std::vector<uint8_t> of_pruned(std::ranges::count(kept, 1), 1);
    EXPECT_EQ(cost_of(whole, kept).multiply_adds, cost_of(pruned, of_pruned).multiply_adds);
  }
}

TEST(MakePlan, CountsByHand) {
  const ModelSummary summary = summarize(golden("gpt2"));  // 3 layers, 4 heads of 8, 32, 41
  const std::vector<uint8_t> kept = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  const int64_t heads = 11, n = 10;
  EXPECT_EQ(cost_of(summary, kept, n).multiply_adds,
            heads * (4 * n * 32 * 8 + 2 * n * n * 8) + 3 * 2 * n * 32 * 41);
  EXPECT_EQ(summary.parameters - cost_of(summary, kept).parameters, 4 * 32 * 8 + 3 * 8);
}

TEST(MakePlan, UniformFitsWhatConfigsCanSay) {
  for (const char* name : {"bert", "llama", "t5", "mpnet", "marian", "qwen3"}) {
    const Model model = load(golden(name));
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(seed));
      const ModelConfig& config = model.config();
      const std::span<const AttentionSite> sites = model.attentions();
      const Verdict verdict = random_verdict(head_names(sites), seed);
      const Plan made = plan(model, verdict, {.keep = 0.6, .uniform = true});
      EXPECT_LE(std::ssize(made.keep) * 10, std::ssize(verdict.heads) * 6);
      const std::set<std::string> kept(made.keep.begin(), made.keep.end());
      std::set<int64_t> counts, groups;
      std::map<Side, std::set<std::set<int32_t>>> self;
      for (const AttentionSite& site : sites) {
        std::set<int32_t> left;
        std::map<int32_t, int64_t> sharing;
        for (size_t h = 0; h < site.heads.size(); ++h) {
          if (!kept.contains(site.head_name(static_cast<int64_t>(h)))) continue;
          left.insert(site.heads[h]);
          ++sharing[static_cast<int32_t>(h * site.kv_heads / site.heads.size())];
        }
        const int64_t kind =
            std::string(name) == "marian"
                ? 100 * (2 * (site.side == Side::decoder) + (site.kind == AttentionKind::cross))
                : 0;
        counts.insert(kind + std::ssize(left));
        for (const auto& [kv, size] : sharing) groups.insert(kind + size);
        if (site.kind == AttentionKind::self) self[site.side].insert(left);
      }
      const size_t kinds = std::string(name) == "marian" ? 3 : 1;
      EXPECT_EQ(counts.size(), kinds);
      EXPECT_EQ(groups.size(), kinds);
      if (config.relative.buckets == 0) continue;
      for (const auto& [side, heads] : self) EXPECT_EQ(heads.size(), 1) << "not the same heads";
    }
  }
}

/// A small causal model, texts, and losses the plain way.
class Measured : public testing::Test {
 protected:
  Measured() {
    TokenBatch texts;
    texts.add(std::vector<int32_t>{5, 9, 3, 7, 2, 11, 40, 41});
    texts.add(std::vector<int32_t>{8, 4, 6});
    texts.add(std::vector<int32_t>{60, 1, 33, 12, 9});
    set_ = next_tokens(texts);
    verdict_ = random_verdict(head_names(model_.attentions()), 5);
  }

  PlanData data() const { return {.evaluation = &set_}; }

  double loss(const std::vector<std::string>& masked) const {
    std::vector<float> gates(model_.heads(), 1);
    for (const std::string& name : masked) {
      const HeadIndex head = model_.find_heads(name).front();
      gates[model_.attentions()[head.site].first + head.index] = 0;
    }
    const TrainingBatch& all = set_.examples.all;
    const Activations hidden =
        model_.forward(all.source, {.gates = {gates.data(), {1, model_.heads()}}});
    double sum = 0, tokens = 0;
    for (int64_t row = 0; row < all.source.rows(); ++row) {
      const int32_t label = all.labels[row];
      if (label < 0) continue;
      double nll = 0;
      model_.output_losses(hidden.rows.rows(row, row + 1), {&label, 1}, {&nll, 1});
      sum += nll;
      ++tokens;
    }
    return sum / tokens;
  }

  Model model_ = load(golden("gpt2"));
  EvaluationSet set_;
  Verdict verdict_;
};

/// What float32 makes of a loss of about 4.
constexpr double kTolerance = 4e-5;

TEST_F(Measured, GreedyTakesTheHeadThatIsMissedLeast) {
  const Plan made =
      plan(model_, verdict_, {.heads = 3, .order = HeadOrder::greedy, .at_least = 0}, data());
  std::vector<std::string> gone;
  const std::vector<std::string> names = head_names(model_.attentions());
  for (const std::string& head : made.drop) {
    double lowest = 1e9;
    for (const std::string& other : names) {
      if (std::ranges::find(gone, other) != gone.end()) continue;
      std::vector<std::string> more = gone;
      more.push_back(other);
      lowest = std::min(lowest, loss(more));
    }
    gone.push_back(head);
    EXPECT_NEAR(loss(gone), lowest, kTolerance) << head;
  }
  EXPECT_EQ(gone.size(), names.size() - 3);
  EXPECT_NEAR(made.expected.at("loss"), loss(made.drop), kTolerance);
  EXPECT_NEAR(made.expected.at("loss_before"), loss({}), kTolerance);
}

TEST_F(Measured, GreedyInLargerSteps) {
  const Plan made =
      plan(model_, verdict_, {.heads = 6, .order = HeadOrder::greedy, .step = 4}, data());
  // The first four are the lowest of one measurement.
  std::vector<double> alone;
  for (const std::string& head : made.drop) alone.push_back(loss({head}));
  for (size_t i = 1; i < 4; ++i) EXPECT_LE(alone[i - 1], alone[i] + kTolerance);
  EXPECT_EQ(made.drop.size(), 6);
}

TEST_F(Measured, CurvesAreLossesOfNestedSets) {
  const PlanOptions options{.heads = 6,
                            .order = HeadOrder::ablation,
                            .curves = {HeadOrder::ablation, HeadOrder::greedy},
                            .draws = 2};
  const Plan made = plan(model_, verdict_, options, data());
  ASSERT_EQ(made.curves.size(), 3);
  const std::vector<std::string> order =
      plan(model_, verdict_, {.heads = 3, .order = HeadOrder::ablation}).drop;
  const auto first = [](const std::vector<std::string>& heads, int64_t count) {
    return std::vector<std::string>(heads.begin(), heads.begin() + count);
  };
  const std::vector<CurvePoint>& curve = made.curves.at("ablation");
  ASSERT_EQ(curve.size(), order.size() + 1);  // few enough for a point each
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_EQ(curve[i].removed, static_cast<int64_t>(i));
    EXPECT_NEAR(curve[i].loss, loss(first(order, curve[i].removed)), kTolerance);
    EXPECT_FALSE(curve[i].score);
  }
  const std::vector<CurvePoint>& random = made.curves.at("random");
  ASSERT_EQ(random.size(), curve.size());
  EXPECT_NEAR(random.front().loss, loss({}), kTolerance);
  // The first draw is the plan by random order; with one draw, the curve is its own.
  PlanOptions one = options;
  one.draws = 1;
  one.curves = {HeadOrder::random};
  const auto drawn = plan(model_, verdict_, {.heads = 3, .order = HeadOrder::random}).drop;
  const Plan control = plan(model_, verdict_, one, data());
  for (const CurvePoint& point : control.curves.at("random")) {
    EXPECT_NEAR(point.loss, loss(first(drawn, point.removed)), kTolerance);
  }
}

TEST_F(Measured, CurvesGetMorePointsWhereTheyBend) {
  PlanOptions options{.heads = 6,
                      .order = HeadOrder::ablation,
                      .curves = {HeadOrder::ablation},
                      .draws = 1,
                      .points = 3};
  const Plan few = plan(model_, verdict_, options, data());
  EXPECT_EQ(few.curves.at("ablation").size(), 3);
  EXPECT_EQ(few.curves.at("random").size(), 3);
  options.more_points = 2;
  const Plan more = plan(model_, verdict_, options, data());
  EXPECT_EQ(more.curves.at("ablation").size(), 5);
  EXPECT_EQ(more.curves.at("random").size(), 3);
  const std::vector<CurvePoint>& curve = more.curves.at("ablation");
  for (size_t i = 1; i < curve.size(); ++i) EXPECT_GT(curve[i].removed, curve[i - 1].removed);
}

TEST_F(Measured, TheLossRisesNoMoreThanAllowed) {
  for (const double share : {0., 0.002, 0.02, 10.}) {
    SCOPED_TRACE(share);
    const Plan made =
        plan(model_, verdict_, {.max_loss = share, .order = HeadOrder::ablation}, data());
    const std::vector<std::string> order =
        plan(model_, verdict_, {.heads = 3, .order = HeadOrder::ablation}).drop;
    const double limit = (1 + share) * loss({});
    size_t expected = 0;
    while (expected < order.size() &&
           loss({order.begin(), order.begin() + static_cast<int64_t>(expected) + 1}) <= limit) {
      ++expected;
    }
    EXPECT_EQ(made.drop.size(), expected);
    EXPECT_LE(made.expected.at("loss"), limit + kTolerance);
  }
}

TEST_F(Measured, MeasuresHowFastItGets) {
  try {
    const Plan made = plan(model_, verdict_, {.speedup = 1.05}, data());
    EXPECT_GE(made.expected.at("speedup"), 1.05);
    EXPECT_GT(made.expected.at("speedup_predicted"), 0);
    EXPECT_GT(made.drop.size(), 0);
  } catch (const Error& error) {  // times are those of a machine that may have other work
    EXPECT_THAT(error.what(), HasSubstr("no plan makes the model so fast"));
  }
  EXPECT_THAT(message(verdict_, {.speedup = 1000}, &model_, data()), HasSubstr("at most"));
  EXPECT_TRUE(plan(model_, verdict_, {.speedup = 1}, data()).drop.empty());
}

TEST(MakePlan, ScoresAreOfTheTask) {
  const Model model = load(golden("bert_sequence"));
  EvaluationSet set{.task = LossTask::classify};
  for (int32_t b = 0; b < 5; ++b) {
    set.examples.all.source.add(std::vector<int32_t>{1, 3 + b, 9, 20 - b, 2});
    set.examples.all.labels.push_back(b % 2);
  }
  const Verdict verdict = random_verdict(head_names(model.attentions()), 1);
  const Plan made =
      plan(model, verdict, {.heads = 2, .curves = {HeadOrder::ablation}}, {.evaluation = &set});
  // The plain way.
  std::vector<float> gates(model.heads(), 1);
  for (const std::string& name : made.drop) gates[model.find_heads(name).front().index] = 0;
  const TokenBatch& texts = set.examples.all.source;
  const Activations hidden = model.forward(texts, {.gates = {gates.data(), {1, model.heads()}}});
  const Activations scores =
      model.output(gather(hidden.rows, model.output_rows(texts.offsets)).rows);
  double right = 0;
  for (int64_t b = 0; b < 5; ++b) {
    const float* const row = &scores.rows(b, 0);
    right += std::max_element(row, row + model.output_width()) - row == b % 2;
  }
  EXPECT_DOUBLE_EQ(made.expected.at("accuracy"), right / 5);
  const std::vector<CurvePoint>& curve = made.curves.at("ablation");
  const auto point = std::ranges::find(curve, std::ssize(made.drop), &CurvePoint::removed);
  ASSERT_NE(point, curve.end());
  EXPECT_EQ(point->score, made.expected.at("accuracy"));
}

TEST(MakePlan, HeadsThatWereNotMeasuredStay) {
  Verdict verdict = four_heads();
  verdict.heads[1].importance.gradient.reset();
  const HeadOrder order = HeadOrder::gradient;
  EXPECT_THAT(plan(verdict, {.heads = 2, .order = order, .at_least = 0}).drop,
              ElementsAre("L1.H0", "L0.H0"));
  EXPECT_THAT(message(verdict, {.heads = 0, .order = order, .at_least = 0}),
              HasSubstr("1 or more"));
}

}  // namespace
}  // namespace headwise
