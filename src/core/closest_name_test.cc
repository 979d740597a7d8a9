// The name that was meant.
#include "core/closest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace headwise {
namespace {

TEST(ClosestName, IsWithinTwoLetters) {
  const std::vector<std::string_view> names = {"previous", "next", "relation"};
  EXPECT_EQ(closest_name("prevous", names), "previous");
  EXPECT_EQ(closest_name("relationss", names), "relation");
  EXPECT_EQ(closest_name("next", names), "next");
  EXPECT_EQ(closest_name("relationsss", names), "");
  EXPECT_EQ(closest_name("", names), "");
  EXPECT_EQ(closest_name("next", {}), "");
}

}  // namespace
}  // namespace headwise
