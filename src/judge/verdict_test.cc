// Redundant heads, backups, rankings, categories and layers; verdict.json and back; heads by name;
// words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/io_testing.h"
#include "judge/judge_testing.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::vector<std::string> kFour = {"L0.H0", "L0.H1", "L0.H2", "L0.H3"};

/// H0, H1 and H1, H2 are alike, H0 and H2 are not.
Evidence chain() {
  Evidence evidence = evidence_of(kFour);
  evidence.pairs["js"]["L0"] =
      matrix_of(kFour, 0.5, {{{0, 1}, 0.05}, {{1, 2}, 0.08}, {{0, 2}, 0.09}});
  evidence.pairs["output_cka"]["L0"] =
      matrix_of(kFour, 0.1, {{{0, 1}, 0.6}, {{1, 2}, 0.7}, {{0, 2}, 0.4}});
  return evidence;
}

TEST(Redundancy, AttendToTheSameAndWriteTheSame) {
  const Verdict verdict = judge(chain());
  EXPECT_THAT(verdict.head("L0.H1").redundant_with, ElementsAre("L0.H0", "L0.H2"));
  EXPECT_THAT(verdict.head("L0.H0").redundant_with, ElementsAre("L0.H1"));
  EXPECT_THAT(verdict.head("L0.H3").redundant_with, IsEmpty());
  EXPECT_THAT(judge(chain(), {.thresholds = {{"redundant_js", 0.04}}}).clusters, IsEmpty());
  EXPECT_THAT(judge(chain(), {.thresholds = {{"redundant_cka", 0.8}}}).clusters, IsEmpty());
}

TEST(Clusters, HaveOnlyRedundantPairs) {
  EXPECT_THAT(judge(chain()).clusters, ElementsAre(ElementsAre("L0.H0", "L0.H1")));
  EXPECT_THAT(judge(chain(), {.thresholds = {{"redundant_cka", 0.4}}}).clusters,
              ElementsAre(ElementsAre("L0.H1", "L0.H0", "L0.H2")));  // the nearest to the others
}

TEST(Clusters, HaveTheMostImportantHeadFirst) {
  Evidence evidence = chain();
  for (const char* head : {"L0.H0", "L0.H1"}) see(evidence, head, "gradient", 0.1);
  see(evidence, "L0.H1", "gradient", 0.2);
  EXPECT_THAT(judge(evidence).clusters, ElementsAre(ElementsAre("L0.H1", "L0.H0")));
  ablate_head(evidence, "L0.H0", 0.2);  // ablations go before gradients
  ablate_head(evidence, "L0.H1", 0.1);
  EXPECT_THAT(judge(evidence).clusters, ElementsAre(ElementsAre("L0.H0", "L0.H1")));
}

TEST(Backups, HaveSynergyAboveTheTolerance) {
  Evidence evidence = evidence_of(kFour);
  evidence.loss = LossEvidence{.task = "lm", .value = 2};
  evidence.pairs["synergy"]["L0"] =
      matrix_of(kFour, -1, {{{0, 1}, 0.011}, {{0, 2}, 0.02}, {{1, 2}, 0.009}});
  const Verdict verdict = judge(evidence);
  EXPECT_DOUBLE_EQ(verdict.tolerance, 0.01);
  EXPECT_THAT(verdict.head("L0.H0").backups, ElementsAre("L0.H2", "L0.H1"));
  EXPECT_THAT(verdict.head("L0.H1").backups, ElementsAre("L0.H0"));
  EXPECT_THAT(verdict.head("L0.H3").backups, IsEmpty());
}

TEST(Standings, FollowTheTolerance) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1"});
  ablate_head(evidence, "L0.H0", 0.008);
  EXPECT_EQ(judge(evidence).head("L0.H0").standing, Standing::replaceable);
  EXPECT_EQ(judge(evidence).head("L0.H1").standing, std::nullopt);
  EXPECT_EQ(judge(evidence, {.tolerance = 0.003}).head("L0.H0").standing, Standing::essential);
  evidence.options["adaptive"] = "0.003";
  EXPECT_EQ(judge(evidence).head("L0.H0").standing, Standing::essential);
  evidence.options["adaptive"] = "often";
  EXPECT_THAT(error_of([&] { judge(evidence); }).got, HasSubstr("often"));
}

TEST(Rankings, AreComparedByRank) {
  Evidence evidence = evidence_of(kFour);
  const double ablations[] = {0.1, 0.2, 0.3, 0.4}, gradients[] = {1, 2, 30, 4},
               entropies[] = {4, 3, 2, 1};
  for (int h = 0; h < 4; ++h) {
    ablate_head(evidence, kFour[h], ablations[h]);
    see(evidence, kFour[h], "gradient", gradients[h]);
    see(evidence, kFour[h], "entropy", entropies[h]);
  }
  const Verdict verdict = judge(evidence);
  EXPECT_NEAR(verdict.correlation.at("gradient").at("ablation_zero"), 0.8, 1e-12);
  EXPECT_NEAR(verdict.correlation.at("entropy").at("ablation_zero"), 1, 1e-12);  // low is sure
  EXPECT_THAT(verdict.rankings.at("gradient"), ElementsAre("L0.H2", "L0.H3", "L0.H1", "L0.H0"));
  EXPECT_EQ(verdict.rankings.at("entropy").front(), "L0.H3");
  EXPECT_FALSE(verdict.rankings.contains("confidence"));
}

Evidence positional() {
  Evidence evidence = evidence_of(kFour);
  see(evidence, "L0.H0", "offset_share/-1", 0.95);
  see(evidence, "L0.H1", "offset_share/1", 0.95);
  see(evidence, "L0.H2", "mass_first", 0.9);
  return evidence;
}

TEST(Categories, AreRolesAndGroupsOfThem) {
  Evidence evidence = positional();
  const Verdict verdict = judge(evidence);
  std::vector<std::string> names;
  for (const Category& category : verdict.categories) names.push_back(category.role);
  EXPECT_THAT(names, ElementsAre("positional", "previous", "next", "first", "unclear"));
  EXPECT_THAT(verdict.categories[0].heads, ElementsAre("L0.H0", "L0.H1"));
  EXPECT_FALSE(verdict.categories[0].measured);
}

TEST(Categories, HaveWhatWasMeasuredOfTheSameHeads) {
  Evidence evidence = positional();
  Measures measures;
  measures.add("ablation_zero", {.value = 0.5, .n = 100, .interval = ConfidenceInterval{0.4, 0.6}});
  measures.add("ablation_zero_half", {.value = 0.1, .n = 20});
  evidence.groups.push_back(
      {.name = "role:positional", .heads = {"L0.H1", "L0.H0"}, .measures = measures});
  evidence.groups.push_back({.name = "role:first", .heads = {"L0.H3"}, .measures = measures});
  const Verdict verdict = judge(evidence);
  ASSERT_TRUE(verdict.categories[0].measured);
  EXPECT_EQ(verdict.categories[0].measured->find("ablation_zero_half")->value, 0.1);
  EXPECT_FALSE(verdict.categories[3].measured);  // of other heads than have the role now
}

TEST(Layers, SayWhatTheyDoAndWhatCouldBeDone) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1", "L1.H0", "L1.H1", "L2.H0", "L2.H1"});
  for (const char* head : {"L0.H0", "L0.H1"}) {
    see(evidence, head, "mass_first", 0.9);
    ablate_head(evidence, head, 0.1);
    ablate_head(evidence, std::string("L1") + (head + 2), 0.001);
  }
  ablate_head(evidence, "L2.H0", 0.1);
  ablate_head(evidence, "L2.H1", 0.001);
  evidence.groups.push_back({.name = "L1", .heads = {"L1.H0", "L1.H1"}});
  evidence.groups.back().measures.add("ablation_zero", {.value = 0.3, .n = 100});
  const Verdict verdict = judge(evidence);
  ASSERT_EQ(verdict.layers.size(), 3);
  EXPECT_EQ(verdict.layers[0].layer, "L0");
  EXPECT_EQ(verdict.layers[0].advice, "freeze");
  EXPECT_EQ(verdict.layers[0].roles.at("first"), 2);
  EXPECT_DOUBLE_EQ(*verdict.layers[0].importance, 0.1);
  EXPECT_EQ(verdict.layers[1].advice, "thin");
  EXPECT_EQ(verdict.layers[1].ablated->value, 0.3);
  EXPECT_EQ(verdict.layers[2].advice, "");  // half of its heads are not more than half
}

TEST(Layers, CountRedundantHeads) {
  const Verdict verdict = judge(chain());
  EXPECT_EQ(verdict.layers[0].redundant, 0.75);
  EXPECT_EQ(verdict.layers[0].advice, "");  // one of four could go
}

Evidence everything() {
  Evidence evidence = chain();
  for (const std::string& head : kFour) {
    ablate_head(evidence, head, 0.001);
    see(evidence, head, "gradient", 0.1);
    see(evidence, head, "entropy", static_cast<double>(head.back()));
    see(evidence, head, "confidence", 0.3);
  }
  see(evidence, "L0.H0", "offset_share/-2", 0.95);
  find_relations_on_probes(evidence, "L0.H1", 0.9, 0.5);
  evidence.pairs["synergy"]["L0"] = matrix_of(kFour, 0, {{{0, 1}, 0.02}});
  evidence.groups.push_back({.name = "role:positional", .heads = {"L0.H0"}});
  evidence.groups.back().measures.add("above_random", {.value = 0.9, .n = 20});
  evidence.groups.push_back({.name = "L0", .heads = kFour});
  evidence.groups.back().measures.add("ablation_zero", {.value = 0.3, .n = 100});
  return evidence;
}

TEST(VerdictJson, ComesBackTheSame) {
  const Verdict verdict = judge(everything());
  EXPECT_EQ(verdict_from_json(to_json(verdict), "verdict.json"), verdict);
  const Verdict bare = judge(evidence_of({"L0.H0"}));
  EXPECT_EQ(verdict_from_json(to_json(bare), "verdict.json"), bare);
}

TEST(VerdictJson, HasTheFieldsThatScriptsReadFrom) {
  const json document = json::parse(to_json(judge(everything())));
  EXPECT_EQ(document["schema"], 1);
  const json& role = document["heads"][0]["roles"][0];
  EXPECT_EQ(role["role"], "offset");
  EXPECT_EQ(role["detail"], "offset -2");
  for (const char* field : {"score", "baseline", "low", "high", "n"}) {
    EXPECT_TRUE(role[field].is_number()) << field;
  }
  EXPECT_EQ(document["heads"][0]["standing"], "replaceable");
  EXPECT_EQ(document["heads"][0]["redundant_with"], json({"L0.H1"}));
  EXPECT_EQ(document["heads"][0]["backups"], json({"L0.H1"}));
  EXPECT_THAT(document["heads"][0]["words"].get<std::string>(), StartsWith("L0.H0 attends"));
  EXPECT_EQ(document["clusters"][0], json({"L0.H0", "L0.H1"}));
  EXPECT_EQ(document["categories"][0]["role"], "positional");
  EXPECT_EQ(document["categories"][0]["measured"]["above_random"]["value"], 0.9);
  EXPECT_EQ(document["layers"][0]["closed"]["value"], 0.3);
}

TEST(VerdictJson, IsRefusedWhenItIsNone) {
  const json good = json::parse(to_json(judge(everything())));
  const auto where = [&](const char* pointer, const json& value) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    return error_of([&] { verdict_from_json(bad.dump(), "v.json"); }).where;
  };
  EXPECT_THAT(where("/schema", 2), HasSubstr("schema"));
  EXPECT_THAT(where("/heads", 3), HasSubstr("heads"));
  EXPECT_THAT(where("/heads/1/head", "L0.H0"), HasSubstr("head"));
  EXPECT_THAT(where("/heads/0/roles/0/role", "magic"), HasSubstr("role"));
  EXPECT_THAT(where("/heads/0/roles/0/score", "high"), HasSubstr("score"));
  EXPECT_THAT(where("/heads/0/standing", "fine"), HasSubstr("standing"));
  EXPECT_THAT(where("/heads/0/redundant_with", json({"L7.H7"})), HasSubstr("redundant_with"));
  EXPECT_THAT(where("/clusters/0", json({"L0.H0"})), HasSubstr("clusters"));
  EXPECT_THAT(where("/clusters/0/0", "L7.H7"), HasSubstr("clusters"));
  EXPECT_THAT(where("/categories/0/heads", json({"L7.H7"})), HasSubstr("heads"));
  EXPECT_THAT(where("/layers/0/redundant", nullptr), HasSubstr("redundant"));
  EXPECT_THAT(where("/thresholds/window", "wide"), HasSubstr("window"));
  EXPECT_THAT(error_of([] { verdict_from_json("{", "v.json"); }).where, HasSubstr("v.json"));
}

TEST(HeadsOfRoles, KnowRolesAndGroups) {
  const Verdict verdict = judge(positional());
  EXPECT_THAT(heads_of_role(verdict, "previous"), ElementsAre("L0.H0"));
  EXPECT_THAT(heads_of_role(verdict, "positional"), ElementsAre("L0.H0", "L0.H1"));
  EXPECT_THAT(heads_of_role(verdict, "syntactic"), IsEmpty());
  EXPECT_THAT(heads_of_role(judge(everything()), "syntactic"), ElementsAre("L0.H1"));
  const ErrorDetail error = error_of([&] { heads_of_role(verdict, "possitional"); });
  EXPECT_THAT(error.hint, HasSubstr("did you mean positional?"));
  EXPECT_THAT(error.expected, HasSubstr("positional"));
  EXPECT_THAT(error.expected, HasSubstr("delimiter"));
  EXPECT_THAT(error_of([&] { heads_of_role(verdict, ""); }).expected, HasSubstr("delimiter"));
}

TEST(HeadsOfRoles, ThatNoHeadHasAreNotThoseThatWereNotMeasured) {
  Evidence evidence = positional();
  Verdict verdict = judge(evidence);
  EXPECT_EQ(no_head_has(verdict, "broad"),
            "the role broad was not measured: headwise observe --measure attention");
  EXPECT_THAT(no_head_has(verdict, "syntactic"), HasSubstr("--measure linguistic"));
  EXPECT_EQ(no_head_has(verdict, "noise"), "no head has the role noise");
  see(evidence, "L0.H3", "entropy_ratio", 0.1);
  verdict = judge(evidence);
  EXPECT_EQ(no_head_has(verdict, "broad"), "no head has the role broad");
  EXPECT_THAT(roles_without_heads(verdict, "role:broad,L0.H1,role:first"), ElementsAre("broad"));
  EXPECT_THAT(verdict.measured,
              ElementsAre("previous", "next", "self", "offset", "first", "broad"));
}

TEST(Warnings, SayThatTheTextsAreShort) {
  Evidence evidence = positional();
  EXPECT_THAT(judge(evidence).warnings, IsEmpty());
  evidence.corpora["text"].tokens = 12;
  EXPECT_THAT(judge(evidence).warnings, ElementsAre(HasSubstr("have 12 tokens")));
}

TEST(HeadsOfLists, AreHeadsLayersAndRoles) {
  const Verdict verdict = judge(positional());
  EXPECT_THAT(heads_of_list(verdict, "L0.H2, role:positional"),
              ElementsAre("L0.H2", "L0.H0", "L0.H1"));
  EXPECT_EQ(heads_of_list(verdict, "L0,L0.H1"), kFour);
  EXPECT_EQ(heads_of_list(verdict, "all"), kFour);
  EXPECT_THAT(error_of([&] { heads_of_list(verdict, "L1"); }).got, HasSubstr("L1"));
  EXPECT_THAT(error_of([&] { heads_of_list(verdict, "L0,"); }).expected, HasSubstr("L0.H0"));
}

TEST(Explanations, SayTheMostTellingRoleFirst) {
  Evidence evidence = evidence_of({"L0.H0"});
  find_relations_on_probes(evidence, "L0.H0", 0.95, 0.2, 3000);
  see(evidence, "L0.H0", "mass_window", 0.7, 100);
  see(evidence, "L0.H0", "mass_first", 0.7);
  const std::string words = explain(judge(evidence), "L0.H0");
  EXPECT_LT(words.find("first token"), words.find("within two tokens"));
  EXPECT_LT(words.find("within two tokens"), words.find("on the probes"));
}

TEST(Explanations, ShowChangesOfTheLossWithTheirSign) {
  Evidence evidence = evidence_of({"L0.H0"});
  ablate_head(evidence, "L0.H0", -0.1);
  EXPECT_THAT(explain(judge(evidence), "L0.H0"), HasSubstr("by -0.1000 (-0.1010 to -0.0990)"));
}

TEST(RoleCounts, AreByWhereARoleWasSeen) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1", "L0.H2", "L0.H3"});
  find_relations_on_probes(evidence, "L0.H0", 0.95, 0.2, 3000);
  see(evidence, "L0.H0", "mass_first", 0.9);
  find_relations_on_probes(evidence, "L0.H1", 0.95, 0.2, 3000);
  evidence.head("L0.H2").measures.add("relation/obj/to_head", share(0.95, 3000, 0.2));
  const Verdict verdict = judge(evidence);
  const RoleCounts counts = count_roles(verdict);
  using Counts = std::map<std::string, int64_t>;
  EXPECT_EQ(counts.data, (Counts{{"first", 1}, {"relation", 1}}));
  EXPECT_EQ(counts.probes, (Counts{{"relation", 2}}));
  EXPECT_EQ(counts.main_data, (Counts{{"first", 1}, {"relation", 1}}));
  EXPECT_EQ(counts.main_probes, (Counts{{"relation", 1}}));
  EXPECT_EQ(verdict.head("L0.H0").main_role()->role, "first");  // data before probes
  EXPECT_EQ(verdict.head("L0.H3").main_role()->role, "unclear");
}

TEST(Explanations, SayItInOneSentence) {
  const Verdict verdict = judge(everything());
  EXPECT_EQ(explain(verdict, "L0.H0"),
            "L0.H0 attends to the token at offset -2 (largest weight there in 95 % of 2000 rows); "
            "ablating it changes the lm loss by +0.0010 (+0.0000 to +0.0020): replaceable; L0.H1 "
            "could stand in for it; L0.H1 backs it up.");
  EXPECT_THAT(explain(verdict, "L0.H1"),
              HasSubstr("finds what case words belong to (right in 90 % of 300; best fixed offset "
                        "50 %), on the probes"));
  EXPECT_THAT(explain(verdict, "L0.H3"), HasSubstr("shows none of the roles looked for"));
  EXPECT_THAT(explain(judge(evidence_of(kFour)), "L0.H3"), HasSubstr("was not measured"));
  EXPECT_THROW(explain(verdict, "L9.H9"), Error);
}

}  // namespace
}  // namespace headwise
