// The table of families: what every one of them must have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/families/family.h"

namespace headwise {
namespace {

TEST(Families, HaveEachATypeAndANameOfTheirOwn) {
  std::set<std::string_view> types, names;
  for (const Family& family : families()) {
    EXPECT_TRUE(types.insert(family.type).second) << family.type;
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_EQ(find_family(family.type), &family);
  }
  EXPECT_EQ(find_family("mamba"), nullptr);
}

TEST(Families, HaveAnOutputLayerForEveryTask) {
  for (const Family& family : families()) {
    ASSERT_NE(class_for(family, Task::hidden), nullptr) << family.type;
    EXPECT_EQ(class_for(family, Task::hidden)->ending, "Model") << family.type;
    std::set<std::string_view> endings;
    for (const ModelClass& named : family.classes) {
      EXPECT_TRUE(endings.insert(named.ending).second) << family.type << named.ending;
      ASSERT_EQ(named.output == nullptr, named.task == Task::hidden) << family.type << named.ending;
      const std::string name = std::string(family.name) + std::string(named.ending);
      EXPECT_EQ(find_class(family, name), &named);
      if (named.task == Task::hidden) continue;
      const ModelConfig config{
          .model_type = std::string(family.type), .architecture = name, .task = named.task};
      EXPECT_NE(task_names(config, "").output, "") << name;
    }
    EXPECT_EQ(find_class(family, "ForMaskedLM"), nullptr);
  }
}

TEST(Families, NameALayerByItsNumber) {
  for (const Family& family : families()) {
    int stacks = 0;
    for (const StackNames* stack : {&family.names.encoder, &family.names.decoder}) {
      if (stack->layer.empty()) continue;
      ++stacks;
      EXPECT_NE(stack->layer.find("{}"), std::string_view::npos) << family.type;
      for (const std::string_view name :
           {stack->self.query, stack->self.output, stack->down, stack->word}) {
        EXPECT_NE(name, "") << family.type;
      }
      EXPECT_EQ(stack->self.norm.empty(), family.type == "normless");
      EXPECT_EQ(stack->feed_forward_norm.empty(), family.type == "normless") << family.type;
    }
    EXPECT_GT(stacks, 0) << family.type;
  }
}

}  // namespace
}  // namespace headwise
