// Heads of models with trained weights: the numbers of PyTorch, and facts that are known about
// them. tests/golden/real/make_observe.py made the numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "golden/folder.h"
#include "headwise/io/json.h"
#include "headwise/observe/observe.h"

namespace headwise {
namespace {

const std::filesystem::path kGoldenFolder = golden_folder();
const std::filesystem::path kProjectFolder = kGoldenFolder.parent_path().parent_path();
const std::filesystem::path kMiniLmFolder = kProjectFolder / "build/models/minilm";
const std::filesystem::path kShared = kProjectFolder / "../shared";
const std::filesystem::path kStories15m = kShared / "models/stories15m";

#define SKIP_WITHOUT(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << (path) << " is not there"

/// Shares may differ by a row whose two largest weights are nearly equal.
bool is_share(const std::string& measure) {
  return measure.starts_with("offset_share") || measure == "rare_share";
}

void expect_golden(const std::string& name, const std::filesystem::path& folder) {
  const nlohmann::json golden = read_json(kGoldenFolder / "real" / ("observe_" + name + ".json"));
  const Model model = load(folder);
  const Tokenizer tokenizer = Tokenizer::load(folder);
  ObserveData data;
  for (const std::string text : golden.at("texts")) {
    data.corpus.texts.push_back(observed_text(model, tokenizer, text, "text"));
  }
  const Evidence evidence = observe(model, data, {.measures = {"attention"}, .probes = false});
  ASSERT_EQ(evidence.heads.size(), golden.at("heads").size());
  for (const auto& [head, measures] : golden.at("heads").items()) {
    for (const auto& [measure, expected] : measures.items()) {
      const double value = expected.at(0);
      const Measure* const got = evidence.head(head).measures.find(measure);
      ASSERT_NE(got, nullptr) << head << " " << measure;
      EXPECT_EQ(got->n, expected.at(1).get<int64_t>()) << head << " " << measure;
      const double tolerance =
          1e-5 * (1 + std::abs(value)) + (is_share(measure) ? 1.001 / got->n : 0);
      EXPECT_NEAR(got->value, value, tolerance) << head << " " << measure;
    }
  }
}

TEST(ObserveReal, SeesInMiniLmWhatPyTorchSees) {
  SKIP_WITHOUT(kMiniLmFolder);
  expect_golden("minilm", kMiniLmFolder);
}

TEST(ObserveReal, SeesInStories15mWhatPyTorchSees) {
  SKIP_WITHOUT(kStories15m);
  expect_golden("stories15m", kStories15m);
}

TEST(ObserveReal, FindsThePreviousTokenHeadOfStories15mAndNoInduction) {
  SKIP_WITHOUT(kStories15m);
  const Model model = load(kStories15m);
  const Tokenizer tokenizer = Tokenizer::load(kStories15m);
  ObserveData data;
  for (const char* text :
       {"Once upon a time, there was a little girl named Lily. She loved to play outside in the "
        "park.",
        "Tom and his dog went to the park. They saw a big red ball and wanted to play with it."}) {
    data.corpus.texts.push_back(observed_text(model, tokenizer, text, "text"));
  }
  const Evidence evidence = observe(model, data, {.measures = {"attention"}});
  std::string best;
  double most = 0;
  for (const HeadEvidence& head : evidence.heads) {
    const double previous = head.measures.find("mass_previous")->value;
    if (previous > most) most = previous, best = head.head;
    EXPECT_LE(head.measures.find("induction")->value, 0.05) << head.head;
  }
  // In 0.79 of its rows the largest weight is on the token before. On texts as short as these the
  // first token takes much of the rest: the mean is 0.44, and 0.74 on random sequences.
  EXPECT_EQ(best, "L2.H0");
  EXPECT_GT(most, 0.4);
  EXPECT_GT(evidence.head(best).measures.find("previous_on_random")->value, 0.7);
}

}  // namespace
}  // namespace headwise
