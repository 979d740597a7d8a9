// Every role, just above and just below what it needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "io/io_testing.h"
#include "judge/judge_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  std::string measure{};
  double above = 0, below = 0;
  std::string role{}, detail{};
};

TEST(Roles, AreGivenFromTheirThresholdOn) {
  const Case cases[] = {{"offset_share/-1", 0.9, 0.899, "previous"},
                        {"offset_share/1", 0.9, 0.899, "next"},
                        {"offset_share/0", 0.9, 0.899, "self"},
                        {"offset_share/-3", 0.9, 0.899, "offset", "offset -3"},
                        {"offset_share/8", 0.9, 0.899, "offset", "offset +8"},
                        {"mass_window", 0.6, 0.599, "window"},
                        {"mass_first", 0.6, 0.599, "first"},
                        {"mass_last", 0.6, 0.599, "last"},
                        {"mass_special", 0.6, 0.599, "delimiter", "special tokens"},
                        {"mass_punctuation", 0.6, 0.599, "delimiter", "punctuation"},
                        {"entropy_ratio", 0.85, 0.849, "broad"},
                        {"semantic", 0.25, 0.249, "semantic"},
                        {"induction", 0.2, 0.199, "induction"},
                        {"duplicate", 0.2, 0.199, "duplicate"},
                        {"constancy", 0.9, 0.899, "dead"},
                        {"diagonal", 0.6, 0.599, "alignment", "diagonal"}};
  for (const Case& each : cases) {
    Evidence evidence = evidence_of({"L0.H0", "L0.H1", "L0.H2"});
    see(evidence, "L0.H0", each.measure, each.above);
    see(evidence, "L0.H1", each.measure, each.below);
    const Verdict verdict = judge(evidence);
    ASSERT_THAT(role_names(verdict, "L0.H0"), ElementsAre(each.role)) << each.measure;
    EXPECT_THAT(role_names(verdict, "L0.H1"), ElementsAre("unclear")) << each.measure;
    EXPECT_THAT(role_names(verdict, "L0.H2"), ElementsAre("unclear")) << each.measure;
    const Role& role = verdict.head("L0.H0").roles.front();
    EXPECT_EQ(role.detail, each.detail);
    EXPECT_EQ(role.shown.value, each.above);
    EXPECT_EQ(role.shown.n, 2000);
    EXPECT_LT(*role.shown.baseline, role.shown.interval->low) << each.measure;
    EXPECT_LT(role.shown.interval->low, each.above);
    EXPECT_GT(role.shown.interval->high, each.above);
  }
}

TEST(Roles, PositionalIsTheOffsetThatWinsMostRows) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "offset_share/-1", 0.95);
  see(evidence, "L0.H0", "offset_share/-5", 1, 100);  // only the last rows have it
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("previous"));
}

TEST(Roles, AlignmentsAreBesideTheBestOffset) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1"});
  const auto aligned = [&](double value, double baseline) {
    evidence.head("L0.H0").measures.add("alignment", share(value, 2000, baseline));
    return role_names(judge(evidence), "L0.H0");
  };
  EXPECT_THAT(aligned(0.6, 0.3), ElementsAre("alignment"));
  EXPECT_EQ(judge(evidence).head("L0.H0").roles[0].detail, "aligned word");
  EXPECT_EQ(judge(evidence).head("L0.H0").roles[0].shown.baseline, 0.3);
  EXPECT_THAT(aligned(0.599, 0.3), ElementsAre("unclear"));
  EXPECT_THAT(aligned(0.6, 0.6), ElementsAre("unclear"));
}

TEST(Roles, FollowChangedThresholds) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "mass_window", 0.5);
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("unclear"));
  const Verdict verdict = judge(evidence, {.thresholds = {{"window", 0.5}}});
  EXPECT_THAT(role_names(verdict, "L0.H0"), ElementsAre("window"));
  EXPECT_EQ(verdict.thresholds.at("window"), 0.5);
  EXPECT_EQ(verdict.thresholds.size(), thresholds().size());
  EXPECT_THAT(error_of([&] {
                judge(evidence, {.thresholds = {{"windw", 0.5}}});
              }).expected,
              HasSubstr("window"));
  EXPECT_EQ(error_of([&] { judge(evidence, {.thresholds = {{"window", 1.5}}}); }).where, "window");
}

TEST(Roles, MustBeatWhatEvenAttentionWouldDo) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "mass_window", 0.7);
  EXPECT_TRUE(judge(evidence).head("L0.H0").has("window"));
  evidence.corpora["text"].texts = 500;  // of 4 tokens: a head that looks everywhere has 0.875
  EXPECT_FALSE(judge(evidence).head("L0.H0").has("window"));
  see(evidence, "L0.H0", "mass_first", 0.6);
  EXPECT_EQ(*judge(evidence).head("L0.H0").roles[0].shown.baseline, 0.25);
}

TEST(Roles, DelimitersAreBesideTheHeadThatLooksMostEverywhere) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1"});
  see(evidence, "L0.H0", "mass_special", 0.7);
  see(evidence, "L0.H0", "entropy_ratio", 0.3);
  see(evidence, "L0.H1", "mass_special", 0.3);
  see(evidence, "L0.H1", "entropy_ratio", 0.8);
  EXPECT_EQ(*judge(evidence).head("L0.H0").roles[0].shown.baseline, 0.3);
  see(evidence, "L0.H1", "mass_special", 0.69);  // the texts are hardly more than that
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("unclear"));
}

TEST(Roles, NeedRowsEnough) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "semantic", 0.3, 200);
  EXPECT_TRUE(judge(evidence).head("L0.H0").has("semantic"));
  see(evidence, "L0.H0", "semantic", 0.3, 20);  // the interval reaches down to chance
  EXPECT_FALSE(judge(evidence).head("L0.H0").has("semantic"));
  see(evidence, "L0.H0", "semantic", 0.3, 200);
  EXPECT_FALSE(judge(evidence, {.thresholds = {{"error", 0}}}).head("L0.H0").has("semantic"));
}

TEST(Roles, OnRepeatedSequencesAreFromProbes) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "induction", 0.25, 800);
  EXPECT_EQ(judge(evidence).head("L0.H0").roles[0].source, RoleSource::probes);
}

TEST(Roles, AHeadMayHaveSeveral) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1"});
  see(evidence, "L0.H0", "mass_first", 0.8);
  see(evidence, "L0.H0", "mass_special", 0.8);
  see(evidence, "L0.H0", "duplicate", 0.3);
  see(evidence, "L0.H1", "offset_share/-1", 0.99);
  see(evidence, "L0.H1", "mass_window", 0.99);  // the offset says it
  const Verdict verdict = judge(evidence);
  EXPECT_THAT(role_names(verdict, "L0.H0"), ElementsAre("duplicate", "delimiter", "first"));
  EXPECT_THAT(role_names(verdict, "L0.H1"), ElementsAre("previous"));
}

TEST(Roles, OfCausalHeadsHaveNoLastToken) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "mass_previous", 0.1);
  see(evidence, "L0.H0", "mass_last", 0.9, 100);
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("unclear"));
  see(evidence, "L0.H0", "mass_next", 0.1);
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("last"));
}

TEST(Roles, AHeadThatAddsNothingIsDead) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "contribution_norm", 0);
  const Verdict verdict = judge(evidence);
  EXPECT_THAT(role_names(verdict, "L0.H0"), ElementsAre("dead"));
  EXPECT_EQ(verdict.head("L0.H0").roles[0].detail, "adds nothing");
}

TEST(Roles, DeadHeadsNeedTokensAndStandBehindOtherRoles) {
  Evidence evidence = evidence_of({"L0.H0"});
  see(evidence, "L0.H0", "constancy", 0.99, 999);
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("unclear"));
  see(evidence, "L0.H0", "constancy", 0.99, 1000);
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("dead"));
  see(evidence, "L0.H0", "entropy_ratio", 0.9);
  EXPECT_THAT(role_names(judge(evidence), "L0.H0"), ElementsAre("broad", "dead"));
}

TEST(Roles, RareTokensAreBesideChance) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1"});
  for (const char* head : {"L0.H0", "L0.H1"}) see(evidence, head, "rare_chance", 0.2);
  see(evidence, "L0.H0", "rare_share", 0.451);
  see(evidence, "L0.H1", "rare_share", 0.449);
  const Verdict verdict = judge(evidence);
  EXPECT_THAT(role_names(verdict, "L0.H0"), ElementsAre("rare"));
  EXPECT_EQ(*verdict.head("L0.H0").roles[0].shown.baseline, 0.2);
  EXPECT_THAT(role_names(verdict, "L0.H1"), ElementsAre("unclear"));
}

TEST(Roles, WordsShowOnProbesToo) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1"});
  evidence.head("L0.H0").probes.add("rare_word", share(0.5, 1000, 0.2));
  evidence.head("L0.H0").probes.add("same_field", share(0.44, 1000, 0.18));
  evidence.head("L0.H1").probes.add("same_field", share(0.42, 1000, 0.18));
  const Verdict verdict = judge(evidence);
  EXPECT_THAT(role_names(verdict, "L0.H0"), ElementsAre("rare", "semantic"));
  EXPECT_EQ(verdict.head("L0.H0").roles[0].source, RoleSource::probes);
  EXPECT_THAT(role_names(verdict, "L0.H1"), ElementsAre("unclear"));
}

TEST(Roles, OfRelationsMustBeatTheFixedOffset) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1", "L0.H2"});
  const char* const name = "relation/det/to_head";
  evidence.head("L0.H0").measures.add(name, share(0.701, 2000, 0.6));
  evidence.head("L0.H1").measures.add(name, share(0.699, 2000, 0.6));  // not by a tenth
  evidence.head("L0.H2").measures.add(name, share(0.75, 40, 0.6));     // not surely
  const Verdict verdict = judge(evidence);
  ASSERT_THAT(role_names(verdict, "L0.H0"), ElementsAre("relation"));
  EXPECT_EQ(verdict.head("L0.H0").roles[0].detail, "det to_head");
  EXPECT_EQ(verdict.head("L0.H0").roles[0].source, RoleSource::data);
  EXPECT_THAT(role_names(verdict, "L0.H1"), ElementsAre("unclear"));
  EXPECT_THAT(role_names(verdict, "L0.H2"), ElementsAre("unclear"));
}

/// Heads whose interval would do if each were the only one.
TEST(Roles, ChoosingAmongManyHeadsIsAllowedFor) {
  const auto with_heads = [](int count) {
    std::vector<std::string> names;
    for (int h = 0; h < count; ++h) names.push_back("L0.H" + std::to_string(h));
    Evidence evidence = evidence_of(names);
    evidence.head("L0.H0").measures.add("relation/det/to_head", share(0.7, 100, 0.45));
    return evidence;
  };
  EXPECT_TRUE(judge(with_heads(1)).head("L0.H0").has("relation"));
  EXPECT_FALSE(judge(with_heads(100)).head("L0.H0").has("relation"));

  Evidence many = with_heads(100);  // chosen on one half, and it holds on the other
  many.best["relation/det/to_head"] = {
      .head = "L0.H0", .chosen = share(0.7, 100, 0.45), .measured = share(0.71, 100, 0.45)};
  const Verdict verdict = judge(many);
  ASSERT_TRUE(verdict.head("L0.H0").has("relation"));
  EXPECT_EQ(verdict.head("L0.H0").roles[0].shown.value, 0.71);
  many.best["relation/det/to_head"].measured = share(0.5, 100, 0.45);
  EXPECT_FALSE(judge(many).head("L0.H0").has("relation"));
}

TEST(Roles, RelationsBeatTheIntervalOfTheirBaseline) {
  Evidence evidence = evidence_of({"L0.H0"});
  evidence.head("L0.H0").measures.add("relation/det/to_head", share(0.6, 100, 0.45));
  EXPECT_FALSE(judge(evidence).head("L0.H0").has("relation"));  // .49 to .70 and .34 to .56
  evidence.head("L0.H0").measures.add("relation/det/to_head", share(0.6, 400, 0.45));
  EXPECT_TRUE(judge(evidence).head("L0.H0").has("relation"));
}

TEST(Roles, ChoosingAmongManyRelationsIsAllowedFor) {
  Evidence evidence = evidence_of({"L0.H0"});
  Measures& measures = evidence.head("L0.H0").measures;
  measures.add("relation/det/to_head", share(0.7, 100, 0.45));
  EXPECT_TRUE(judge(evidence).head("L0.H0").has("relation"));
  for (int r = 0; r < 100; ++r) {
    measures.add("relation/r" + std::to_string(r) + "/to_head", share(0.1, 100, 0.45));
  }
  EXPECT_FALSE(judge(evidence).head("L0.H0").has("relation"));
}

TEST(Roles, DataGoBeforeProbes) {
  Evidence evidence = evidence_of({"L0.H0"});
  find_relations_on_probes(evidence, "L0.H0", 0.9, 0.3);
  Verdict verdict = judge(evidence);
  ASSERT_TRUE(verdict.head("L0.H0").has("relation"));
  EXPECT_EQ(verdict.head("L0.H0").roles[0].source, RoleSource::probes);
  evidence.head("L0.H0").measures.add("relation/obj/to_head", share(0.2, 300, 0.3));
  EXPECT_FALSE(judge(evidence).head("L0.H0").has("relation"));
}

TEST(Roles, OfRelationsOnProbesNeedFourThatAgree) {
  Evidence evidence = evidence_of({"L0.H0"});
  Measures& probes = evidence.head("L0.H0").probes;
  probes.add("relation/det/to_head", share(0.9, 300, 0.59));
  probes.add("relation/case/to_head", share(0.9, 300, 0.36));
  probes.add("relation/obl/to_head", share(0.4, 300, 0.21));
  probes.add("relation/nsubj/to_head", share(0.39, 3000, 0.36));  // below the threshold
  probes.add("relation/aux/to_head", share(0.56, 50, 0.5));       // not surely
  probes.add("relation/compound/to_head", share(1, 300, 1));      // always beside its noun
  EXPECT_EQ(judge(evidence).head("L0.H0").roles[0].role, "unclear");
  probes.add("relation/obj/to_dependent", share(0.46, 900, 0.36));
  const Verdict verdict = judge(evidence);
  EXPECT_EQ(verdict.head("L0.H0").roles.size(), 4u);
  EXPECT_EQ(verdict.head("L0.H0").roles[0].detail, "case to_head");
}

TEST(Roles, OfCoreferenceOnProbesNeedEveryArrangement) {
  const auto roles = [](double all, double before, double near, double far) {
    Evidence evidence = evidence_of({"L0.H0"});
    HeadEvidence& head = evidence.head("L0.H0");
    head.probes.add("coreference", share(all, 400, 0.5));
    head.probes.add("coreference/before", share(before, 100, 0));
    head.probes.add("coreference/near", share(near, 200, 1));
    head.probes.add("coreference/far", share(far, 100, 0));
    return role_names(judge(evidence), "L0.H0");
  };
  EXPECT_THAT(roles(0.79, 0.6, 0.9, 0.6), ElementsAre("coreference"));
  EXPECT_THAT(roles(0.75, 0.6, 0.9, 0.6), ElementsAre("unclear"));
  EXPECT_THAT(roles(0.79, 0.49, 0.9, 0.7), ElementsAre("unclear"));
  EXPECT_THAT(roles(0.79, 0.7, 0.49, 0.9), ElementsAre("unclear"));
  EXPECT_THAT(roles(0.79, 0.7, 0.9, 0.49), ElementsAre("unclear"));
}

TEST(Roles, RelationsStandByWhatTheyAddToTheBaseline) {
  Evidence evidence = evidence_of({"L0.H0"});
  Measures& measures = evidence.head("L0.H0").measures;
  measures.add("relation/case/to_head", share(0.6, 1000, 0.3));
  measures.add("relation/det/to_head", share(0.95, 1000, 0.8));
  const Verdict verdict = judge(evidence);
  EXPECT_EQ(verdict.head("L0.H0").roles[0].detail, "det to_head");
  EXPECT_EQ(verdict.head("L0.H0").roles[1].detail, "case to_head");
}

TEST(Roles, OfEachRelationTheSurestHeadIsNamed) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1"});
  evidence.head("L0.H0").measures.add("relation/case/to_head", share(0.95, 30, 0.3));
  evidence.head("L0.H1").measures.add("relation/case/to_head", share(0.9, 3000, 0.3));
  evidence.head("L0.H1").measures.add("relation/obj/to_head", share(0.7, 3000, 0.4));
  find_relations_on_probes(evidence, "L0.H0", 0.99, 0.3);
  const std::vector<RelationHead> best = best_relation_heads(judge(evidence));
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].relation, "case to_head");
  EXPECT_EQ(best[0].head, "L0.H1");
  EXPECT_EQ(best[0].shown.value, 0.9);
  EXPECT_EQ(best[1].relation, "obj to_head");
}

TEST(Roles, CoreferenceMustBeatTheNearestNameAndAHalf) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1", "L0.H2"});
  evidence.head("L0.H0").measures.add("coreference", share(0.66, 2000, 0.4));
  evidence.head("L0.H1").measures.add("coreference", share(0.64, 2000, 0.4));
  evidence.head("L0.H2").measures.add("coreference", share(0.66, 2000, 0.6));
  const Verdict verdict = judge(evidence);
  ASSERT_THAT(role_names(verdict, "L0.H0"), ElementsAre("coreference"));
  EXPECT_EQ(*verdict.head("L0.H0").roles[0].shown.baseline, 0.5);
  EXPECT_THAT(role_names(verdict, "L0.H1"), ElementsAre("unclear"));
  EXPECT_THAT(role_names(verdict, "L0.H2"), ElementsAre("unclear"));
}

TEST(Roles, WithoutOneAHeadIsNoiseOrUnclear) {
  Evidence evidence = evidence_of({"L0.H0", "L0.H1", "L0.H2", "L0.H3", "L0.H4"});
  ablate_head(evidence, "L0.H0", 0.001);   // within 0.5 % of 2
  ablate_head(evidence, "L0.H1", 0.1);     // essential
  ablate_head(evidence, "L0.H2", -0.1);    // harmful
  ablate_head(evidence, "L0.H3", 0.0105);  // undecided
  const Verdict verdict = judge(evidence);
  EXPECT_THAT(role_names(verdict, "L0.H0"), ElementsAre("noise"));
  EXPECT_THAT(role_names(verdict, "L0.H1"), ElementsAre("unclear"));
  EXPECT_THAT(role_names(verdict, "L0.H2"), ElementsAre("noise"));
  EXPECT_THAT(role_names(verdict, "L0.H3"), ElementsAre("unclear"));
  EXPECT_THAT(role_names(verdict, "L0.H4"), ElementsAre("unclear"));
  EXPECT_EQ(*verdict.head("L0.H0").roles[0].shown.baseline, verdict.tolerance);
}

TEST(StandingKinds, SayWhichHeadsCanBeRemovedAlone) {
  HeadVerdict head{.head = "L0.H0"};
  EXPECT_FALSE(can_be_removed(head));  // its ablation was not measured
  std::set<std::string_view> removable;
  for (const StandingKind& kind : standing_kinds()) {
    head.standing = kind.standing;
    if (can_be_removed(head)) removable.insert(to_string(kind.standing));
  }
  EXPECT_EQ(standing_kinds().size(), 4);
  EXPECT_THAT(removable, ElementsAre("harmful", "replaceable"));
}

TEST(RoleKinds, HaveALetterEach) {
  std::set<char> letters;
  for (const RoleKind& kind : role_kinds()) EXPECT_TRUE(letters.insert(kind.letter).second);
  EXPECT_EQ(role_kind("previous").group, "positional");
  EXPECT_TRUE(role_kind("unclear").none() && role_kind("noise").none());
  EXPECT_FALSE(role_kind("dead").none());
  EXPECT_THAT(error_of([] { role_kind("prev"); }).expected, HasSubstr("previous"));
  EXPECT_EQ(error_of([] { role_kind("relations"); }).hint, "did you mean relation?");
}

}  // namespace
}  // namespace headwise
