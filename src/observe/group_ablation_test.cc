// Groups of heads beside halves and random heads.
#include "observe/group_ablation.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "headwise/model/sentence_embedding.h"
#include "observe/loss_table.h"
#include "texts_testing.h"

namespace headwise {
namespace {

class GroupsOfBert : public testing::Test {
 protected:
  GroupsOfBert()
      : model_(load(golden_model("bert"))),
        set_(unlabelled(
            headwise::texts_of(model_.config().vocabulary, std::vector<int64_t>(40, 9), 3))),
        sweep_(model_, pooling_, set_, {}),
        all_(model_.heads()) {
    std::iota(all_.begin(), all_.end(), 0);
  }

  double change(const std::vector<int64_t>& heads) {
    const std::vector<Ablation> ablations = {{.heads = heads}};
    const SweepValues values = sweep_.run(ablations);
    return LossStatistic(set_.task, sweep_.scorer().tokens(), {})
        .change(values.ablated[0], values.base);
  }

  /// Single heads, those that matter least first.
  std::vector<int64_t> by_importance() {
    std::vector<double> changes;
    for (const int64_t head : all_) changes.push_back(change({head}));
    std::vector<int64_t> order = all_;
    std::ranges::sort(order, {}, [&](int64_t head) { return changes[head]; });
    return order;
  }

  Model model_;
  EvaluationSet set_;
  SentencePooling pooling_ = SentencePooling::mean();
  LossSweep sweep_;
  std::vector<int64_t> all_;
};

TEST_F(GroupsOfBert, HaveTheLossOfAllTheirHeads) {
  const std::vector<GroupToAblate> groups = {{.heads = {1, 5, 8}}, {.heads = {2}}};
  const GroupAblations measured = ablate_groups(sweep_, groups, all_, {.halves = 3, .draws = 6});
  for (size_t g = 0; g < groups.size(); ++g) {
    const Measure& whole = *measured.groups[g].find("ablation_zero");
    EXPECT_NEAR(whole.value, change(groups[g].heads), 1e-6);
    EXPECT_EQ(whole.n, set_.size());
    EXPECT_EQ(measured.groups[g].find("ablation_zero_half")->n, 3);
    EXPECT_EQ(measured.groups[g].find("ablation_zero_random")->n, 6);
    EXPECT_EQ(measured.groups[g].find("above_random")->n, 6);
  }
  // A half of one head is that head.
  EXPECT_DOUBLE_EQ(measured.groups[1].find("ablation_zero_half")->value,
                   measured.groups[1].find("ablation_zero")->value);
}

TEST_F(GroupsOfBert, OfAllHeadsOrWithoutComparisonGetNoDraws) {
  const std::vector<GroupToAblate> groups = {{.heads = all_}, {.heads = {0}, .compared = false}};
  const GroupAblations measured = ablate_groups(sweep_, groups, all_, {});
  EXPECT_EQ(measured.groups[0].find("ablation_zero_random"), nullptr);
  EXPECT_EQ(measured.groups[1].find("ablation_zero_random"), nullptr);
  EXPECT_EQ(measured.groups[1].find("ablation_zero_half"), nullptr);
}

/// Heads that matter least are soon below three draws; the others may need all of them.
TEST_F(GroupsOfBert, StopDrawingWhenTheComparisonIsClear) {
  const std::vector<int64_t> order = by_importance();
  const std::vector<GroupToAblate> groups = {{.heads = {order[0], order[1], order[2]}}};
  const GroupAblationOptions adaptive{.halves = 1, .draws = 20, .adaptive = true};
  const GroupAblations soon = ablate_groups(sweep_, groups, all_, adaptive);
  EXPECT_LT(soon.groups[0].find("above_random")->n, 20);
  EXPECT_LT(soon.groups[0].find("above_random")->value, 0.5);
  const GroupAblations all = ablate_groups(sweep_, groups, all_, {.halves = 1, .draws = 20});
  EXPECT_EQ(all.groups[0].find("above_random")->n, 20);
  EXPECT_LT(soon.passes, all.passes);
}

TEST_F(GroupsOfBert, DrawNoFurtherRoundBeyondTheBudget) {
  const std::vector<GroupToAblate> groups = {{.heads = {0, 4, 8}}};
  GroupAblationOptions options{.halves = 0, .draws = 20, .adaptive = true, .passes = 0};
  options.examples = {0, 1, 2, 3, 4, 5, 6, 7};
  const GroupAblations measured = ablate_groups(sweep_, groups, all_, options);
  EXPECT_EQ(measured.groups[0].find("above_random")->n, 4);
  EXPECT_EQ(measured.groups[0].find("ablation_zero")->n, 8);
}

}  // namespace
}  // namespace headwise
