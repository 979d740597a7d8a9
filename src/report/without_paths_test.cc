// Texts without the folders of this machine.
#include "report/without_paths.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace headwise {
namespace {

TEST(WithoutPaths, KeepsTheNamesOfFiles) {
  EXPECT_EQ(without_paths("/home/me/reviews.txt"), "reviews.txt");
  EXPECT_EQ(without_paths("../shared/ud/dev.conllu"), "dev.conllu");
  EXPECT_EQ(without_paths("~/x.txt ./y.txt build/models/minilm/"), "x.txt y.txt minilm");
  EXPECT_EQ(without_paths("headwise study /m --input='/a b/c d.txt' -o /tmp/s"),
            "headwise study m --input='c d.txt' -o s");
  EXPECT_EQ(without_paths("it's /a/b, isn't it"), "it's b, isn't it");
}

TEST(WithoutPaths, LeavesWhatIsNoPath) {
  for (const char* text : {"org/model", "1/2", "a / b", "texts", "", "'and/or/but or so'",
                           "https://universaldependencies.org/u/dep/", "L3.H1=0"}) {
    EXPECT_EQ(without_paths(text), text);
  }
}

TEST(WithoutPaths, ReachesEveryStringOfAValue) {
  nlohmann::json value = {{"a", {"/x/y", 3}}, {"b", {{"c", "/x/z"}}}};
  remove_paths(value);
  EXPECT_EQ(value, (nlohmann::json{{"a", {"y", 3}}, {"b", {{"c", "z"}}}}));
}

}  // namespace
}  // namespace headwise
