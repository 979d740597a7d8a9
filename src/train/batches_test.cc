// Batches: every example once, within the budget, the same again, other in every epoch.
#include "headwise/train/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "headwise/core/random.h"
#include "train/train_data_testing.h"

namespace headwise {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::Le;

/// Classification of `count` texts of 1 to `longest` tokens; text i has token i and label i.
Examples drawn_examples(int32_t count, uint32_t longest, uint64_t seed = 1) {
  Random random(seed);
  Examples examples;
  for (int32_t i = 0; i < count; ++i) {
    examples.all.source.add(std::vector<int32_t>(1 + random.below(longest), i));
    examples.all.labels.push_back(i);
  }
  return examples;
}

std::vector<int64_t> order_of(const Epoch& epoch) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < epoch.batches(); ++i) {
    const auto some = epoch.examples(i);
    order.insert(order.end(), some.begin(), some.end());
  }
  return order;
}

TEST(Batches, HaveEveryExampleOnceWithinTheBudget) {
  for (const int32_t count : {1, 2, 17, 1000}) {
    for (const uint32_t longest : {1u, 9u, 60u}) {
      for (const int64_t budget : {1, 10, 50, 300, 1'000'000}) {
        for (const bool shuffle : {true, false}) {
          SCOPED_TRACE(testing::Message() << count << " to " << longest << " in " << budget);
          const Examples examples = drawn_examples(count, longest);
          const Epoch epoch(examples, {.tokens = budget, .seed = 3, .shuffle = shuffle}, 5);
          std::vector<int64_t> order = order_of(epoch);
          for (int64_t i = 0; i < epoch.batches(); ++i) {
            const TrainingBatch batch = epoch.batch(i);
            ASSERT_GT(batch.source.sequences(), 0);
            ASSERT_TRUE(batch.tokens() <= budget || batch.source.sequences() == 1);
          }
          std::sort(order.begin(), order.end());
          std::vector<int64_t> all(static_cast<size_t>(count));
          std::iota(all.begin(), all.end(), 0);
          ASSERT_EQ(order, all);
        }
      }
    }
  }
}

TEST(Batches, AreFull) {
  const Examples examples = drawn_examples(5000, 60);
  const Epoch epoch(examples, {.tokens = 1000}, 0);
  const int64_t least = examples.all.source.rows() / 1000;
  EXPECT_LE(epoch.batches(), least + least / 20 + 1) << "at most the last text of each is missing";
}

TEST(Batches, HaveTextsOfSimilarLengths) {
  const Examples examples = drawn_examples(5000, 60);
  const Epoch epoch(examples, {.tokens = 1000}, 0);
  double spread = 0;
  for (int64_t i = 0; i < epoch.batches(); ++i) {
    int64_t shortest = INT64_MAX, longest = 0;
    for (const int64_t example : epoch.examples(i)) {
      shortest = std::min(shortest, examples.tokens(example));
      longest = std::max(longest, examples.tokens(example));
    }
    spread += static_cast<double>(longest - shortest) / static_cast<double>(epoch.batches());
  }
  EXPECT_LT(spread, 6) << "of 59 among all";
}

TEST(Batches, AreTheSameAgainAndOtherInEveryEpochAndForEverySeed) {
  const Examples examples = drawn_examples(500, 20);
  const auto order = [&](uint64_t seed, int64_t number) {
    return order_of(Epoch(examples, {.tokens = 100, .seed = seed}, number));
  };
  EXPECT_EQ(order(1, 0), order(1, 0));
  EXPECT_NE(order(1, 0), order(1, 1));
  EXPECT_NE(order(1, 0), order(2, 0));
}

TEST(Batches, MixWhatIsTogether) {
  const Examples examples = drawn_examples(2000, 20);
  const auto beside = [&](int64_t number) {
    const Epoch epoch(examples, {.tokens = 200}, number);
    for (int64_t i = 0; i < epoch.batches(); ++i) {
      const auto some = epoch.examples(i);
      if (std::find(some.begin(), some.end(), 0) != some.end()) {
        return std::set<int64_t>(some.begin(), some.end());
      }
    }
    return std::set<int64_t>();
  };
  std::set<int64_t> all;
  for (int64_t number = 0; number < 10; ++number) all.merge(beside(number));
  EXPECT_GT(all.size(), 5 * beside(0).size()) << "most neighbours of example 0 are new each time";
}

TEST(Batches, KeepTheOrderWhenTold) {
  Examples examples = drawn_examples(100, 20);
  const Epoch epoch(examples, {.tokens = 50, .shuffle = false}, 7);
  const std::vector<int64_t> order = order_of(epoch);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Batches, HoldWhatBelongsTogether) {
  Examples examples;  // of translation: source i, i; target i + 1; label per row of the target
  for (int32_t i = 0; i < 50; ++i) {
    examples.all.source.add(std::vector<int32_t>{i, i});
    examples.all.target.add(std::vector<int32_t>(static_cast<size_t>(i % 3 + 1), i + 1));
    for (int32_t row = 0; row <= i % 3; ++row) examples.all.labels.push_back(i + 2);
  }
  const Epoch epoch(examples, {.tokens = 20}, 0);
  for (int64_t i = 0; i < epoch.batches(); ++i) {
    const TrainingBatch batch = epoch.batch(i);
    EXPECT_LE(batch.tokens(), 20);
    ASSERT_EQ(batch.target.sequences(), batch.source.sequences());
    ASSERT_EQ(std::ssize(batch.labels), batch.target.rows());
    for (int64_t text = 0; text < batch.source.sequences(); ++text) {
      const int32_t id = text_at(batch.source, text)[0];
      EXPECT_THAT(text_at(batch.target, text), Each(id + 1));
      const auto begin = batch.target.offsets[static_cast<size_t>(text)];
      const auto end = batch.target.offsets[static_cast<size_t>(text) + 1];
      for (auto row = begin; row < end; ++row) {
        EXPECT_EQ(batch.labels[static_cast<size_t>(row)], id + 2);
      }
    }
  }
}

TEST(Batches, KeepPairsOfTexts) {
  Examples examples{.texts_each = 2};
  for (int32_t i = 0; i < 20; ++i) {
    examples.all.source.add(std::vector<int32_t>{i});
    examples.all.source.add(std::vector<int32_t>{-i, -i});
    examples.all.scores.push_back(static_cast<float>(i) / 20);
  }
  const Epoch epoch(examples, {.tokens = 9}, 0);
  for (int64_t i = 0; i < epoch.batches(); ++i) {
    const TrainingBatch batch = epoch.batch(i);
    EXPECT_LE(batch.source.rows(), 9);
    ASSERT_EQ(batch.source.sequences(), 2 * std::ssize(batch.scores));
    for (int64_t pair = 0; pair < std::ssize(batch.scores); ++pair) {
      const int32_t id = text_at(batch.source, 2 * pair)[0];
      EXPECT_THAT(text_at(batch.source, 2 * pair + 1), ElementsAre(-id, -id));
      EXPECT_EQ(batch.scores[static_cast<size_t>(pair)], static_cast<float>(id) / 20);
    }
  }
}

/// Masked LM with tokens 0 to 3 special, 3 the mask, and 1000 others.
Examples masked_examples(int32_t count, size_t length) {
  Examples examples{.masking = Masking{.mask = 3, .is_special = std::vector<bool>(1004)}};
  for (size_t id = 0; id < 4; ++id) examples.masking->is_special[id] = true;
  for (int32_t id = 4; id < 1004; ++id) examples.masking->drawn.push_back(id);
  Random random(9);
  for (int32_t i = 0; i < count; ++i) {
    std::vector<int32_t> ids = {1};
    for (size_t j = 0; j < length; ++j) {
      ids.push_back(4 + static_cast<int32_t>(random.below(1000)));
    }
    ids.push_back(2);
    examples.all.source.add(ids);
  }
  return examples;
}

TEST(Masks, HideFifteenPercentInThreeWays) {
  const Examples examples = masked_examples(2000, 50);
  const Epoch epoch(examples, {.tokens = 1'000'000, .seed = 4, .shuffle = false}, 0);
  const TrainingBatch batch = epoch.batch(0);
  const auto& original = examples.all.source.ids;
  double chosen = 0, hidden = 0, replaced = 0;
  for (size_t row = 0; row < original.size(); ++row) {
    const int32_t label = batch.labels[row], id = batch.source.ids[row];
    if (label == kIgnoreIndex) {
      ASSERT_EQ(id, original[row]);
      continue;
    }
    ASSERT_GE(original[row], 4) << "special tokens are not hidden";
    ASSERT_EQ(label, original[row]);
    ++chosen;
    hidden += id == 3;
    replaced += id != 3 && id != label;
  }
  // Four standard deviations of a binomial variable.
  EXPECT_NEAR(chosen / 100'000, 0.15, 4 * std::sqrt(0.15 * 0.85 / 100'000));
  EXPECT_NEAR(hidden / chosen, 0.8, 4 * std::sqrt(0.8 * 0.2 / chosen));
  EXPECT_NEAR(replaced / chosen, 0.1, 4 * std::sqrt(0.1 * 0.9 / chosen));
}

TEST(Masks, HideAtLeastOneToken) {
  const Examples examples = masked_examples(300, 1);
  const TrainingBatch batch = Epoch(examples, {.tokens = 1000, .shuffle = false}, 0).batch(0);
  for (size_t text = 0; text < 300; ++text) EXPECT_GE(batch.labels[3 * text + 1], 4);
}

TEST(Masks, DependOnSeedEpochAndExampleOnly) {
  const Examples examples = masked_examples(100, 30);
  const auto masks = [&](uint64_t seed, int64_t number, int64_t tokens, bool shuffle) {
    const Epoch epoch(examples, {.tokens = tokens, .seed = seed, .shuffle = shuffle}, number);
    std::vector<std::vector<int32_t>> ids(100), labels(100);
    for (int64_t i = 0; i < epoch.batches(); ++i) {
      const TrainingBatch batch = epoch.batch(i);
      for (int64_t text = 0; text < batch.source.sequences(); ++text) {
        const auto example = static_cast<size_t>(epoch.examples(i)[static_cast<size_t>(text)]);
        ids[example] = text_at(batch.source, text);
        labels[example].assign(
            batch.labels.begin() + batch.source.offsets[static_cast<size_t>(text)],
            batch.labels.begin() + batch.source.offsets[static_cast<size_t>(text) + 1]);
      }
    }
    return std::pair(ids, labels);
  };
  EXPECT_EQ(masks(1, 2, 100, true), masks(1, 2, 5000, false));
  EXPECT_NE(masks(1, 2, 100, true), masks(1, 3, 100, true));
  EXPECT_NE(masks(1, 2, 100, true), masks(2, 2, 100, true));
}

TEST(Batches, RefuseWhatCannotBe) {
  const Examples examples = drawn_examples(3, 1);
  EXPECT_EQ(error_of([&] { Epoch(examples, {.tokens = 0}, 0); }).expected, "at least 1");
  const Epoch epoch(examples, {.tokens = 1}, 0);
  EXPECT_EQ(error_of([&] { epoch.batch(3); }).expected, "0 to 2");
  EXPECT_EQ(error_of([&] { epoch.batch(-1); }).got, "-1");
}

}  // namespace
}  // namespace headwise
