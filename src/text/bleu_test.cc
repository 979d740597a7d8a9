// BLEU against sacreBLEU on small corpora, and what it refuses.
#include "headwise/text/bleu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "golden/folder.h"
#include "golden/text_golden.h"
#include "headwise/io/json.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

/// The corpus of a case, or golden lines and the same with an o for each a.
Texts texts_of(const json& expected, const char* side) {
  if (expected.contains(side)) return expected[side].get<Texts>();
  Texts texts = golden::load_texts();
  if (side == std::string_view("hypotheses")) {
    for (std::string& text : texts) std::replace(text.begin(), text.end(), 'a', 'o');
  }
  return texts;
}

TEST(Bleu, EqualsSacreBleu) {
  const json cases = read_json(golden_folder() / "bleu" / "bleu.json");
  ASSERT_GE(cases.size(), 25u);
  for (const json& expected : cases) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    const Bleu bleu =
        corpus_bleu(texts_of(expected, "hypotheses"), texts_of(expected, "references"));
    EXPECT_EQ(json(bleu.matches), expected["matches"]);
    EXPECT_EQ(json(bleu.totals), expected["totals"]);
    EXPECT_EQ(bleu.hypothesis_length, expected["hypothesis_length"].get<int64_t>());
    EXPECT_EQ(bleu.reference_length, expected["reference_length"].get<int64_t>());
    // The same formula in double precision: a few roundings of numbers up to 100.
    constexpr double kTolerance = 1e-11;
    EXPECT_NEAR(bleu.score, expected["score"].get<double>(), kTolerance);
    EXPECT_NEAR(bleu.brevity_penalty, expected["brevity_penalty"].get<double>(), kTolerance);
    for (size_t n = 0; n < Bleu::kOrder; ++n) {
      EXPECT_NEAR(bleu.precisions[n], expected["precisions"][n].get<double>(), kTolerance);
    }
  }
}

TEST(Bleu, TakesBytesThatAreNoUtf8) {
  const Texts broken = {"a \xFF b c", "d\xC3 e \xE2\x82"};
  EXPECT_EQ(corpus_bleu(broken, broken).matches[0], corpus_bleu(broken, broken).totals[0]);
}

TEST(Bleu, RefusesCorporaOfDifferentLengths) {
  const auto error = error_of([] { corpus_bleu(Texts{"a", "b"}, Texts{"a"}); });
  EXPECT_EQ(error.what, "BLEU: hypotheses and references are not as many");
  EXPECT_EQ(error.got, "2 hypotheses");
  EXPECT_EQ(error.expected, "1, one for each reference");
}

TEST(Bleu, RefusesNoTexts) {
  EXPECT_EQ(error_of([] { corpus_bleu({}, {}); }).what, "BLEU: there are no texts");
}

}  // namespace
}  // namespace headwise
