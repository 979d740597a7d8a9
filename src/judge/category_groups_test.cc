// Categories as groups of heads.
#include "headwise/judge/category_groups.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "golden/folder.h"
#include "headwise/core/error.h"

namespace headwise {
namespace {

TEST(CategoryGroups, HaveTheHeadsOfEachRole) {
  const Model model = load(golden_folder() / "models" / "bert");
  const Verdict verdict{.categories = {{.role = "previous", .heads = {"L1.H1", "L0.H0"}},
                                       {.role = "induction"},
                                       {.role = "noise", .heads = {"L0.H1"}}}};
  const std::vector<NamedHeads> groups = category_groups(verdict, model);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "role:previous");
  EXPECT_EQ(groups[0].heads, (std::vector<int64_t>{model.attentions()[1].first + 1, 0}));
  EXPECT_EQ(groups[1].name, "role:noise");
  EXPECT_EQ(groups[1].heads, (std::vector<int64_t>{1}));
  EXPECT_THROW(category_groups({.categories = {{.role = "a", .heads = {"L9.H0"}}}}, model), Error);
}

}  // namespace
}  // namespace headwise
