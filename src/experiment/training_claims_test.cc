// The rules of claims on trainings, on trials that are made up.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experiment/claims/claims.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int64_t kSeeds = 4;

/// What trials of the same seed share, and what they do not.
double noise(int64_t seed, double own) {
  return 0.3 * static_cast<double>(seed) + 1e-4 * std::sin(own + static_cast<double>(seed));
}

json tasks_of(std::vector<std::string> names) {
  json tasks;
  for (const std::string& name : names) {
    tasks[name] = {{"model", {{"width", 8}, {"heads", 4}}}};
  }
  return tasks;
}

/// The losses of 1, 4 and 8 heads on the tasks a and b.
Finding several(std::vector<double> a, std::vector<double> b) {
  const json settings = {{"seeds", kSeeds},
                         {"smallest", 0.01},
                         {"models", {{{"width", 8}, {"heads", {1, 4, 8}}}}},
                         {"tasks", tasks_of({"a", "b"})}};
  TrialResults results;
  for (int64_t seed = 0; seed < kSeeds; ++seed) {
    for (const size_t i : {0, 1, 2}) {
      const std::string end = fmt::format("width=8 heads={} seed={}", i == 0 ? 1 : 4 * i, seed);
      results["a " + end] = {{"loss", a[i] + noise(seed, a[i])}};
      results["b " + end] = {{"loss", b[i] + noise(seed, b[i])}};
    }
  }
  return several_heads().judge(settings, results);
}

TEST(TrainingClaims, SeveralHeadsMustBeatOne) {
  const std::vector<double> better = {2, 1, 3}, worse = {1, 2, 3};
  const Finding confirmed = several(better, better);
  EXPECT_EQ(confirmed.outcome, ClaimOutcome::confirmed);
  EXPECT_NEAR(*confirmed.figure, 1, 1e-3);
  EXPECT_THAT(confirmed.why, HasSubstr("fewest that suffice 4.0"));
  EXPECT_EQ(several(worse, worse).outcome, ClaimOutcome::refuted);
  EXPECT_EQ(several({1.005, 1, 3}, worse).outcome, ClaimOutcome::refuted) << "too small to matter";
  const Finding depends = several(better, worse);
  EXPECT_EQ(depends.outcome, ClaimOutcome::depends);
  EXPECT_THAT(depends.depends_on, HasSubstr("task"));
}

/// What the three forms of sharing lose on the tasks a and b.
Finding separate(double a, double b) {
  const json settings = {{"seeds", kSeeds}, {"smallest", 0.01}, {"tasks", tasks_of({"a", "b"})}};
  TrialResults results = {{"identity", {{"difference", 1e-7}}}};
  for (int64_t seed = 0; seed < kSeeds; ++seed) {
    for (const std::string form : {"separate", "summed", "wide", "averaged"}) {
      const double shared = form == "separate" ? 0 : 1;
      results[fmt::format("a {} seed={}", form, seed)] = {{"loss", a * shared + noise(seed, a)}};
      results[fmt::format("b {} seed={}", form, seed)] = {{"loss", b * shared + noise(seed, 2)}};
    }
  }
  return separate_softmax().judge(settings, results);
}

TEST(TrainingClaims, SharingMustCost) {
  EXPECT_EQ(separate(1, 0.5).outcome, ClaimOutcome::confirmed);
  EXPECT_NEAR(*separate(1, 0.5).figure, 0.75, 1e-3);
  EXPECT_EQ(separate(0, -0.1).outcome, ClaimOutcome::refuted);
  EXPECT_EQ(separate(1, 0).outcome, ClaimOutcome::depends);
}

json weights_of(std::vector<double> largest) {
  json weights = json::array();
  for (size_t h = 0; h < largest.size(); ++h) {
    json& head = weights.emplace_back(json::array({0.1, 0.1, 0.1, 0.1}));
    head[h % 4] = largest[h];
  }
  return weights;
}

/// With 4 and 8 heads, how many have a role.
Finding specialised(int64_t of_four, int64_t of_eight, bool roles_follow_init) {
  const json settings = {
      {"seeds", kSeeds}, {"grid", 3}, {"heads", {4, 8}}, {"looks", 2}, {"noise", {0, 1}}};
  TrialResults results;
  const auto result = [](int64_t heads, int64_t with) {
    std::vector<double> largest(heads, 0.2);
    std::fill_n(largest.begin(), with, 0.9);
    const double share = static_cast<double>(with) / static_cast<double>(heads);
    const auto look = [](int64_t step, double loss, double share) {
      return json{{"step", step}, {"loss", loss}, {"with_role", share}, {"taken", share}};
    };
    return json{{"loss", 0},
                {"weights", weights_of(largest)},
                {"course", {look(0, 4, 0), look(5, 3, share), look(10, 0, share)}}};
  };
  for (int64_t seed = 0; seed < kSeeds; ++seed) {
    results[fmt::format("heads=4 seed={}", seed)] = result(4, of_four);
    results[fmt::format("heads=8 seed={}", seed)] = result(8, of_eight);
    for (const int noise : {0, 1}) {
      results[fmt::format("equal heads noise={} seed={}", noise, seed)] = {
          {"loss", 1 - noise},
          {"difference", noise},
          {"weights", weights_of({0.9, 0.9, 0.9, 0.9})}};
    }
  }
  for (int64_t init = 0; init < 3; ++init) {
    for (int64_t order = 0; order < 3; ++order) {
      json weights = weights_of({0.9, 0.9, 0.9, 0.9});
      const int64_t shift = roles_follow_init ? init : order;
      std::rotate(weights.begin(), weights.begin() + shift, weights.end());
      results[fmt::format("init={} order={}", init, order)] = {{"weights", weights}};
    }
    for (const char* part : {"query and key", "value and output", "all of it"}) {
      results[fmt::format("{} transplanted seed={}", part, init)] =
          results[fmt::format("init={0} order={0}", init)];
    }
  }
  return head_specialisation().judge(settings, results);
}

TEST(TrainingClaims, HeadsMustTakeRoles) {
  const Finding confirmed = specialised(4, 6, true);
  EXPECT_EQ(confirmed.outcome, ClaimOutcome::confirmed);
  EXPECT_EQ(confirmed.figure, 1);
  EXPECT_THAT(confirmed.why, HasSubstr("half of that is reached after 50 % of the training"));
  EXPECT_THAT(confirmed.why, HasSubstr("same first weights, other order of data: 100 %"));
  EXPECT_THAT(confirmed.why, HasSubstr("same order, other first weights: 0 %"));
  EXPECT_EQ(specialised(1, 2, true).outcome, ClaimOutcome::refuted);
  const Finding depends = specialised(4, 2, false);
  EXPECT_EQ(depends.outcome, ClaimOutcome::depends);
  EXPECT_THAT(depends.why, HasSubstr("same order, other first weights: 100 %"));
}

/// What models with 2 of 4 heads lose against pruned ones, on the tasks a and b.
Finding pruned(double a, double b) {
  const json settings = {
      {"seeds", kSeeds}, {"smallest", 0.01}, {"few", {2}}, {"tasks", tasks_of({"a", "b"})}};
  TrialResults results;
  for (int64_t seed = 0; seed < kSeeds; ++seed) {
    for (const auto& [task, more] : {std::pair("a", a), std::pair("b", b)}) {
      const auto loss = [&](double of) { return json{{"loss", of + noise(seed, of)}}; };
      json cut = loss(1);
      cut.update({{"whole", 1}, {"cut", 2}});
      results[fmt::format("{} few=2 seed={}", task, seed)] = {{"few", loss(1 + more)},
                                                              {"few in two", loss(1 + more)},
                                                              {"pruned", cut},
                                                              {"random", loss(1.5)}};
    }
  }
  return train_many_prune_few().judge(settings, results);
}

TEST(TrainingClaims, PruningMustBeatTrainingFew) {
  EXPECT_EQ(pruned(0.2, 0.4).outcome, ClaimOutcome::confirmed);
  EXPECT_NEAR(*pruned(0.2, 0.4).figure, 0.3, 1e-3);
  EXPECT_EQ(pruned(-0.2, -0.4).outcome, ClaimOutcome::refuted);
  EXPECT_EQ(pruned(-0.2, 0.4).outcome, ClaimOutcome::depends);
  EXPECT_THAT(pruned(0, 0).why, HasSubstr("which heads go matters in 2 of 2 cases"));
}

/// What removing half of the heads costs, and what ablating each of two adds, after dropout.
Finding dropped(double cost, std::vector<double> added) {
  const json settings = {{"seeds", kSeeds},
                         {"smallest", 0.01},
                         {"smallest_spread", 0.5},
                         {"dropout", {0, 0.3}},
                         {"tasks", tasks_of({"a"})}};
  TrialResults results;
  for (int64_t seed = 0; seed < kSeeds; ++seed) {
    const double loss = 2 + noise(seed, 0);
    results[fmt::format("a dropout=0 seed={}", seed)] = {
        {"loss", loss}, {"added", {1, -0.1}}, {"pruned", {loss, loss + 1 + noise(seed, 1)}}};
    results[fmt::format("a dropout=0.3 seed={}", seed)] = {
        {"loss", loss + 0.1},
        {"added", {added[0] + 1e-3 * static_cast<double>(seed), added[1]}},
        {"pruned", {loss, loss + 0.1 + cost + noise(seed, 2)}}};
  }
  return head_dropout().judge(settings, results);
}

TEST(TrainingClaims, HeadDropoutMustSpreadAndSave) {
  EXPECT_EQ(dropped(0.2, {1, 1}).outcome, ClaimOutcome::confirmed);
  EXPECT_NEAR(*dropped(0.2, {1, 1}).figure, 0.8, 1e-3);
  EXPECT_EQ(dropped(1.2, {1, 0}).outcome, ClaimOutcome::refuted);
  EXPECT_EQ(dropped(0.2, {1, 0}).outcome, ClaimOutcome::depends);
}

}  // namespace
}  // namespace headwise
