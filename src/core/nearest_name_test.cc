// The name that was meant.
#include "headwise/core/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace headwise {
namespace {

TEST(DidYouMean, NamesWhatIsWithinTwoLetters) {
  const std::vector<std::string_view> names = {"previous", "next", "relation"};
  EXPECT_EQ(did_you_mean("prevous", names), "did you mean previous?");
  EXPECT_EQ(did_you_mean("relationss", names), "did you mean relation?");
  EXPECT_EQ(did_you_mean("next", names), "did you mean next?");
  EXPECT_EQ(did_you_mean("relationsss", names), "");
  EXPECT_EQ(did_you_mean("", names), "");
  EXPECT_EQ(did_you_mean("next", std::vector<std::string_view>()), "");
}

}  // namespace
}  // namespace headwise
