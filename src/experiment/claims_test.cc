// The rules of claims on trials that are made up: each outcome can happen, and for its reason.
#include "experiment/claims/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiment/subject.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json two_models() {
  return {{"subjects",
           {{{"model", "a"}, {"task", "lm"}, {"data", "d"}, {"domain", "own"}},
            {{"model", "b"}, {"task", "lm"}, {"data", "d"}, {"domain", "other"}}}}};
}

json estimates(const std::vector<double>& values, double error) {
  std::vector<Estimate> all;
  for (const double value : values) all.push_back({.value = value, .error = error, .n = 400});
  return to_json(all);
}

json names(size_t heads) {
  json names = json::array();
  for (size_t h = 0; h < heads; ++h) names.push_back("L0.H" + std::to_string(h));
  return names;
}

/// A trial of harmful-heads: changes on both halves.
json halves(const std::vector<double>& one, const std::vector<double>& other, double error) {
  return {{"loss", 1},
          {"heads", names(one.size())},
          {"changes", {estimates(one, error), estimates(other, error)}},
          {"together", {nullptr, nullptr}}};
}

Finding harmful(const json& a, const json& b) {
  return harmful_heads().judge(two_models(), {{"a lm d", a}, {"b lm d", b}});
}

TEST(ClaimRules, HarmfulHeadsMustHarmOnTheOtherHalf) {
  const json good = halves({0.01, 0.02, 0.03}, {0.01, 0.02, 0.03}, 0.0005);
  const json bad = halves({-0.01, 0.02, 0.03}, {-0.01, 0.02, 0.03}, 0.0005);
  // What looks harmful on one half alone.
  const json lucky = halves({-0.01, 0.02, 0.03}, {0.01, 0.02, 0.03}, 0.0005);
  EXPECT_EQ(harmful(bad, bad).outcome, ClaimOutcome::confirmed);
  EXPECT_EQ(harmful(good, good).outcome, ClaimOutcome::refuted);
  EXPECT_EQ(harmful(lucky, lucky).figure, 0);
  const Finding depends = harmful(good, bad);
  EXPECT_EQ(depends.outcome, ClaimOutcome::depends);
  EXPECT_THAT(depends.depends_on, HasSubstr("domain"));
  EXPECT_EQ(depends.family.size(), 2);  // of one head, on both halves
  // Too few examples to say that there are none.
  const json vague = halves({0.01, 0.02, 0.03}, {0.01, 0.02, 0.03}, 0.02);
  EXPECT_EQ(harmful(vague, vague).outcome, ClaimOutcome::not_decided);
}

json singles(const std::vector<double>& changes, double error) {
  json layers = json::array();
  for (size_t h = 0; h < changes.size(); ++h) layers.push_back(h / 4);
  return {{"loss", 2},
          {"scale", 2},
          {"heads", names(changes.size())},
          {"layers", layers},
          {"changes", estimates(changes, error)}};
}

TEST(ClaimRules, OneCostlyHeadRefutesThatAnyCanGo) {
  json settings = two_models();
  settings["little"] = 0.01;
  const auto outcome = [&](const json& a, const json& b) {
    return single_heads().judge(settings, {{"a lm d", a}, {"b lm d", b}}).outcome;
  };
  // The threshold is 1 % of a loss of 2.
  const json cheap = singles({0.001, 0.002, 0.01}, 0.0005);
  const json costly = singles({0.001, 0.002, 0.04}, 0.0005);
  EXPECT_EQ(outcome(cheap, cheap), ClaimOutcome::confirmed);
  EXPECT_EQ(outcome(costly, costly), ClaimOutcome::refuted);
  EXPECT_EQ(outcome(cheap, costly), ClaimOutcome::depends);
  EXPECT_EQ(outcome(cheap, singles({0.001, 0.002, 0.02}, 0.01)), ClaimOutcome::not_decided);
}

TEST(ClaimRules, CostThatRisesWithDepthIsARankCorrelation) {
  json settings = two_models();
  settings["matters"] = 0.4;
  std::vector<double> rising, falling;
  for (int h = 0; h < 32; ++h) {
    rising.push_back(0.01 * h + 0.001 * (h % 3));
    falling.push_back(-rising.back());
  }
  const auto outcome = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return lower_layers()
        .judge(settings, {{"a lm d", singles(a, 0.001)}, {"b lm d", singles(b, 0.001)}})
        .outcome;
  };
  EXPECT_EQ(outcome(rising, rising), ClaimOutcome::confirmed);
  EXPECT_EQ(outcome(falling, falling), ClaimOutcome::refuted);
  EXPECT_EQ(outcome(rising, falling), ClaimOutcome::depends);
}

TEST(ClaimRules, RegretIsMeasuredAgainstTheExactBestSets) {
  constexpr int kHeads = 5;
  json settings = {{"margin", 0.1}, {"seeds", {0, 1, 2, 3}}};
  TrialResults results;
  for (int seed = 0; seed < 4; ++seed) {
    // Costs add up, so that the order of single costs gives all best sets. Seeds differ a little.
    std::vector<double> cost, changes, reversed;
    for (int h = 0; h < kHeads; ++h) cost.push_back(1 + (h * 2 + seed) % kHeads);
    for (uint32_t mask = 1; mask < 1 << kHeads; ++mask) {
      double sum = 0;
      for (int h = 0; h < kHeads; ++h) sum += (mask >> h & 1) * cost[h];
      changes.push_back(sum);
    }
    for (const double value : cost) reversed.push_back(-value - 0.001 * seed);
    results["seed=" + std::to_string(seed)] = {{"changes", changes},
                                               {"predictors",
                                                {{"ablation_zero", cost},
                                                 {"gradient", cost},
                                                 {"contribution_norm", cost},
                                                 {"entropy", cost},
                                                 {"mass_first", reversed}}}};
  }
  Finding finding = gradients_are_enough().judge(settings, results);
  EXPECT_EQ(finding.outcome, ClaimOutcome::confirmed);
  EXPECT_EQ(finding.figure, 0);
  EXPECT_EQ(finding.family[2].figure, 0);  // ablation_zero: the best sets themselves
  // Low entropy should matter: the reverse of the costs is worse than random.
  EXPECT_GT(finding.family[5].figure, 1);
  for (auto& [name, result] : results) {
    result["predictors"]["gradient"] = result["predictors"]["mass_first"];
  }
  EXPECT_EQ(gradients_are_enough().judge(settings, results).outcome, ClaimOutcome::refuted);
}

}  // namespace
}  // namespace headwise
