// Two heads side by side: the parts agree with what makes each of them alone.
#include "headwise/judge/head_pair.h"

#include <gmock/gmock.h>

#include <vector>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "headwise/judge/judge.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

ObserveData texts() {
  ObserveData data;
  data.corpus.texts.push_back({.ids = {5, 9, 3, 7, 8, 4}});
  data.corpus.texts.push_back({.ids = {4, 4, 8, 9}});
  return data;
}

TEST(HeadPair, IsComparedObservedAndJudged) {
  const Model model = load(golden_model("bert").string());
  std::vector<std::string> parts;
  const HeadPair pair = compare_pair(model, "L0.H0", "L1.H1", texts(),
                                     {.progress = [&](const std::string& part, int64_t, int64_t) {
                                       if (parts.empty() || parts.back() != part)
                                         parts.push_back(part);
                                     }});
  const HeadComparison alone = compare_heads(model, model.find_heads("L0.H0").front(),
                                             model.find_heads("L1.H1").front(), texts().corpus);
  EXPECT_EQ(pair.comparison.a, "L0.H0");
  EXPECT_EQ(pair.comparison.b, "L1.H1");
  EXPECT_EQ(pair.comparison.js, alone.js);
  EXPECT_EQ(pair.comparison.output_cka, alone.output_cka);
  EXPECT_NE(pair.evidence.head("L1.H1").measures.find("entropy"), nullptr);
  EXPECT_NE(pair.evidence.head("L0.H0").measures.find("qk_rank"), nullptr);
  EXPECT_EQ(to_json(pair.verdict), to_json(judge(pair.evidence)));
  EXPECT_GE(parts.size(), 2);
}

TEST(HeadPair, TakesRolesFromAVerdict) {
  const Model model = load(golden_model("bert").string());
  const Verdict verdict{
      .heads = {{.head = "L0.H0",
                 .roles = {{.role = "relation", .detail = "det", .source = RoleSource::probes},
                           {.role = "previous"}}}}};
  const HeadPair pair = compare_pair(model, "L0.H0", "L0.H1", texts(), {.verdict = verdict});
  EXPECT_THAT(named_roles(pair.verdict, "L0.H0"),
              ElementsAre("relation (det) on probes", "previous"));
  EXPECT_THAT(named_roles(pair.verdict, "L0.H1"), IsEmpty());
}

TEST(HeadPair, IsOfSingleHeads) {
  const Model model = load(golden_model("bert").string());
  EXPECT_THROW(compare_pair(model, "L0", "L0.H1", texts()), Error);
  EXPECT_THROW(compare_pair(model, "L0.H1", "L0.H1", texts()), Error);
}

}  // namespace
}  // namespace headwise
