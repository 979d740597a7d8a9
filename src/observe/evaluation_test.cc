// Sets of examples: what is scored, what is hidden, what is sampled, what is refused.
#include "headwise/observe/evaluation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

TokenBatch texts_of(const std::vector<std::vector<int32_t>>& texts) {
  TokenBatch batch;
  for (const auto& text : texts) batch.add(text);
  return batch;
}

int64_t scored(const EvaluationSet& set) {
  const auto& labels = set.examples.all.labels;
  return std::ssize(labels) - std::ranges::count(labels, kIgnoreIndex);
}

TEST(LossTasks, HaveNames) {
  for (const char* name : {"lm", "mlm", "classify", "translate", "similarity", "fidelity"}) {
    EXPECT_EQ(to_string(loss_task(name)), name);
  }
  EXPECT_THROW(loss_task("nll"), Error);
}

TEST(NextTokens, AreAllButTheFirst) {
  const EvaluationSet set = next_tokens(texts_of({{5, 6, 7}, {8}, {9, 4}}));
  EXPECT_EQ(set.examples.all.labels,
            (std::vector<int32_t>{6, 7, kIgnoreIndex, kIgnoreIndex, 4, kIgnoreIndex}));
  EXPECT_TRUE(set.positions.empty());
}

class HiddenTokens : public testing::Test {
 protected:
  HiddenTokens() {
    masking_.mask = 3;
    masking_.is_special = {true, true, true, true, false, false};  // ids beyond are ordinary
    std::vector<int32_t> ids = {1};
    for (int32_t i = 0; i < 98; ++i) ids.push_back(4 + i);
    ids.push_back(2);
    texts_ = texts_of({ids, {1, 7, 2}, {1, 2}, {1, 9, 8, 7, 2}});
  }
  Masking masking_;
  TokenBatch texts_;
};

TEST_F(HiddenTokens, AreFifteenPercentAndAtLeastOne) {
  const EvaluationSet set = hidden_tokens(texts_, masking_);
  ASSERT_EQ(set.positions.size(), 4);
  EXPECT_EQ(set.positions[0].size(), 15);  // 14.7
  EXPECT_EQ(set.positions[1], (std::vector<int32_t>{1}));
  EXPECT_TRUE(set.positions[2].empty());
  EXPECT_EQ(set.positions[3].size(), 1);
  const TrainingBatch& all = set.examples.all;
  for (int64_t b = 0; b < 4; ++b) {
    for (int64_t i = 0; i < texts_.offsets[b + 1] - texts_.offsets[b]; ++i) {
      const int64_t row = texts_.offsets[b] + i;
      const bool hidden = std::ranges::count(set.positions[b], i) > 0;
      EXPECT_EQ(all.source.ids[row], hidden ? 3 : texts_.ids[row]);
      EXPECT_EQ(all.labels[row], hidden ? texts_.ids[row] : kIgnoreIndex);
      EXPECT_TRUE(!hidden || texts_.ids[row] >= 4);
    }
  }
}

/// Masks of a text are disjoint, and the first one is that of a set with one mask.
TEST_F(HiddenTokens, OfSeveralMasksAreDisjoint) {
  const EvaluationSet one = hidden_tokens(texts_, masking_);
  const EvaluationSet set = hidden_tokens(texts_, masking_, 4);
  EXPECT_EQ(set.masks, 4);
  ASSERT_EQ(set.size(), 16);
  const TokenBatch& source = set.examples.all.source;
  for (int64_t b = 0; b < 4; ++b) {
    EXPECT_EQ(set.positions[4 * b], one.positions[b]);
    std::set<int32_t> seen;
    for (int64_t x = 4 * b; x < 4 * b + 4; ++x) {
      ASSERT_EQ(source.offsets[x + 1] - source.offsets[x],
                texts_.offsets[b + 1] - texts_.offsets[b]);
      for (const int32_t position : set.positions[x]) {
        EXPECT_TRUE(seen.insert(position).second);
        EXPECT_EQ(source.ids[source.offsets[x] + position], 3);
        EXPECT_EQ(set.examples.all.labels[source.offsets[x] + position],
                  texts_.ids[texts_.offsets[b] + position]);
      }
    }
  }
  EXPECT_EQ(set.positions[3].size(), 15);
  EXPECT_TRUE(set.positions[5].empty()) << "its only token was hidden by the first mask";
  EXPECT_EQ(scored(set), 60 + 1 + 0 + 3);
}

TEST_F(HiddenTokens, AreMaskedAgain) {
  const EvaluationSet again = with_masks(hidden_tokens(texts_, masking_), masking_, 3);
  const EvaluationSet expected = hidden_tokens(texts_, masking_, 3);
  EXPECT_EQ(again.positions, expected.positions);
  EXPECT_EQ(again.examples.all.source.ids, expected.examples.all.source.ids);
  EXPECT_EQ(again.examples.all.labels, expected.examples.all.labels);
  EXPECT_THROW(with_masks(expected, masking_, 2), Error);
  EXPECT_THROW(hidden_tokens(texts_, masking_, 0), Error);
}

TEST_F(HiddenTokens, AreSplitByTexts) {
  const EvaluationSet set = hidden_tokens(texts_, masking_, 2);
  const SplitExamples halves = split_examples(set);
  EXPECT_EQ(halves.choosing.masks, 2);
  ASSERT_EQ(halves.choosing.size(), 4);
  ASSERT_EQ(halves.held_out.size(), 4);
  std::set<int64_t> seen;
  for (const EvaluationSet* half : {&halves.choosing, &halves.held_out}) {
    const TokenBatch &some = half->examples.all.source, &all = set.examples.all.source;
    for (int64_t x = 0; x < 4; x += 2) {
      const auto tokens = some.offsets[x + 1] - some.offsets[x];
      int64_t text = 0;  // all texts are of different lengths
      while (texts_.offsets[text + 1] - texts_.offsets[text] != tokens) ++text;
      EXPECT_TRUE(seen.insert(text).second);
      for (int64_t mask = 0; mask < 2; ++mask) {
        EXPECT_EQ(half->positions[x + mask], set.positions[2 * text + mask]);
        EXPECT_TRUE(std::equal(some.ids.begin() + some.offsets[x + mask],
                               some.ids.begin() + some.offsets[x + mask + 1],
                               all.ids.begin() + all.offsets[2 * text + mask]));
      }
    }
  }
  EXPECT_EQ(seen.size(), 4);
}

/// Masks differ between equal texts.
TEST_F(HiddenTokens, OfEqualTextsStayInOneHalf) {
  TokenBatch texts;
  for (int32_t b = 0; b < 20; ++b) {
    for (int copy = 0; copy < 2; ++copy) {
      texts.add(std::vector<int32_t>{1, 10 + b, 40 + b, 70 + b, 99, 98, 97, 2});
    }
  }
  const EvaluationSet set = hidden_tokens(texts, masking_);
  const SplitExamples halves = split_examples(set);
  EXPECT_EQ(halves.choosing.size(), 20);
  EXPECT_EQ(halves.held_out.size(), 20);
  for (const EvaluationSet* half : {&halves.choosing, &halves.held_out}) {
    const TokenBatch& source = half->examples.all.source;
    std::vector<int32_t> whole = source.ids;
    for (size_t row = 0; row < whole.size(); ++row) {
      const int32_t label = half->examples.all.labels[row];
      if (label != kIgnoreIndex) whole[row] = label;
    }
    std::map<std::vector<int32_t>, int> copies;
    for (int64_t x = 0; x < half->size(); ++x) {
      ++copies[{whole.begin() + source.offsets[x], whole.begin() + source.offsets[x + 1]}];
    }
    for (const auto& [ids, count] : copies) EXPECT_EQ(count, 2);
  }
}

/// The first token of every text of a batch.
std::vector<int32_t> first_tokens(const TokenBatch& texts) {
  std::vector<int32_t> tokens;
  for (int64_t b = 0; b < texts.sequences(); ++b) tokens.push_back(texts.ids[texts.offsets[b]]);
  return tokens;
}

/// Files often alternate: labels 0, 1, 0, 1, or a sentence and its negation.
TEST(SplitExamples, MixPatternsOfTheFile) {
  EvaluationSet set{.task = LossTask::classify};
  for (int32_t b = 0; b < 41; ++b) {
    set.examples.all.source.add(std::vector<int32_t>{100 + b, 7});
    set.examples.all.labels.push_back(b % 2);
  }
  const SplitExamples halves = split_examples(set);
  EXPECT_EQ(halves.choosing.size(), 21);
  EXPECT_EQ(halves.held_out.size(), 20);
  std::set<int32_t> seen;
  for (const EvaluationSet* half : {&halves.choosing, &halves.held_out}) {
    for (const int32_t label : {0, 1}) {
      EXPECT_GE(std::ranges::count(half->examples.all.labels, label), 3) << label;
    }
    const std::vector<int32_t> tokens = first_tokens(half->examples.all.source);
    EXPECT_TRUE(std::ranges::is_sorted(tokens)) << "in the order of the file";
    seen.insert(tokens.begin(), tokens.end());
    for (size_t x = 0; x < tokens.size(); ++x) {
      EXPECT_EQ(half->examples.all.labels[x], tokens[x] % 2);
    }
  }
  EXPECT_EQ(seen.size(), 41);
  EXPECT_EQ(first_tokens(split_examples(set).held_out.examples.all.source),
            first_tokens(halves.held_out.examples.all.source));
}

TEST(SplitExamples, KeepEqualExamplesTogether) {
  EvaluationSet pairs{.task = LossTask::similarity};
  pairs.examples.texts_each = 2;
  for (int32_t x = 0; x < 30; ++x) {
    const int32_t pair = x < 12 ? 0 : x % 10;  // the first one 12 times and more
    pairs.examples.all.source.add(std::vector<int32_t>{5, 6});
    pairs.examples.all.source.add(std::vector<int32_t>{50 + pair});
    pairs.examples.all.scores.push_back(static_cast<float>(pair));
  }
  const SplitExamples halves = split_examples(pairs);
  EXPECT_EQ(halves.choosing.size(), 15) << "small groups make up for the large one";
  EXPECT_EQ(halves.held_out.size(), 15);
  const auto of = [](const EvaluationSet& half) {
    return std::set<float>(half.examples.all.scores.begin(), half.examples.all.scores.end());
  };
  for (const float pair : of(halves.choosing)) EXPECT_FALSE(of(halves.held_out).contains(pair));
  EXPECT_EQ(of(halves.choosing).size() + of(halves.held_out).size(), 10);
}

TEST(SampledPositions, AreAShareOfThoseThatWereScored) {
  std::vector<std::vector<int32_t>> texts;
  for (int32_t b = 0; b < 20; ++b) texts.emplace_back(11, b + 1);
  EvaluationSet set = next_tokens(texts_of(texts));
  const std::vector<int32_t> before = set.examples.all.labels;
  sample_positions(set, 0.1, 4);
  EXPECT_EQ(scored(set), 20);  // of 200
  ASSERT_EQ(set.positions.size(), 20);
  int64_t listed = 0;
  for (int64_t b = 0; b < 20; ++b) {
    for (const int32_t position : set.positions[b]) {
      ++listed;
      EXPECT_GE(position, 1);  // of tokens that are said, not of rows that say them
      EXPECT_LE(position, 10);
      const int64_t row = 11 * b + position - 1;
      EXPECT_EQ(set.examples.all.labels[row], before[row]);
    }
  }
  EXPECT_EQ(listed, 20);
  sample_positions(set, 0.001, 4);
  EXPECT_EQ(scored(set), 1);
}

TEST(SampledPositions, AreRefusedWhereThereAreNone) {
  EvaluationSet set = unlabelled(texts_of({{5, 6}}));
  EXPECT_THROW(sample_positions(set, 0.1, 0), Error);
  set = next_tokens(texts_of({{5, 6}}));
  for (const double share : {0., -1., 1.5}) EXPECT_THROW(sample_positions(set, share, 0), Error);
}

TEST(SampledExamples, KeepWhatBelongsToThem) {
  std::vector<std::vector<int32_t>> texts;
  for (int32_t b = 0; b < 30; ++b) texts.emplace_back(1 + b % 4, 10 * b + 5);
  EvaluationSet set = next_tokens(texts_of(texts));
  sample_positions(set, 0.5, 1);
  const EvaluationSet before = set;
  sample_examples(set, 7, 2);
  ASSERT_EQ(set.size(), 7);
  ASSERT_EQ(set.positions.size(), 7);
  const TokenBatch& source = set.examples.all.source;
  int32_t last = -1;
  for (int64_t x = 0; x < 7; ++x) {
    const int32_t b = source.ids[source.offsets[x]] / 10;
    EXPECT_GT(b, last);
    last = b;
    EXPECT_EQ(source.offsets[x + 1] - source.offsets[x], std::ssize(texts[b]));
    EXPECT_EQ(set.positions[x], before.positions[b]);
    for (int64_t i = 0; i < std::ssize(texts[b]); ++i) {
      EXPECT_EQ(set.examples.all.labels[source.offsets[x] + i],
                before.examples.all.labels[before.examples.all.source.offsets[b] + i]);
    }
  }
  sample_examples(set, 100, 2);
  EXPECT_EQ(set.size(), 7);
  EXPECT_THROW(sample_examples(set, 0, 2), Error);
}

class EvaluationFiles : public testing::Test {
 protected:
  EvaluationFiles()
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("evaluation_" + std::to_string(::getpid()))),
        tokenizer_(Tokenizer::load(golden_folder() / "text/tokenizers/bert-uncased")) {
    std::filesystem::create_directories(folder_);
    config_.vocabulary = tokenizer_.size();
    config_.max_positions = 32;
    config_.task = Task::masked_lm;
    config_.labels = {"LABEL_0", "LABEL_1"};
  }
  ~EvaluationFiles() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& text) {
    const std::filesystem::path path = folder_ / std::to_string(++count_);
    std::ofstream(path) << text;
    return path;
  }
  EvaluationSet read(LossTask task, const std::string& text) {
    return read_evaluation(task, {file(text)}, tokenizer_, config_);
  }

  std::filesystem::path folder_;
  Tokenizer tokenizer_;
  ModelConfig config_;
  int count_ = 0;
};

TEST_F(EvaluationFiles, OfEveryTask) {
  EXPECT_EQ(read(LossTask::fidelity, "the cat\n\nthe dog sat\n").size(), 2);
  const EvaluationSet hidden = read(LossTask::mlm, "the cat\nthe dog sat\n");
  EXPECT_EQ(scored(hidden), 2);
  const EvaluationSet pairs = read(LossTask::similarity, "a cat\ta dog\t4.5\nthe sun\ta dog\t0\n");
  EXPECT_EQ(pairs.size(), 2);
  EXPECT_EQ(pairs.examples.all.scores, (std::vector<float>{4.5f, 0}));
  config_.task = Task::classify;
  const EvaluationSet labelled = read(LossTask::classify, "a cat\t1\na dog\tLABEL_0\n");
  EXPECT_EQ(labelled.examples.all.labels, (std::vector<int32_t>{1, 0}));
  config_.task = Task::causal_lm;
  EXPECT_EQ(read(LossTask::lm, "the cat\nthe dog sat\n").size(), 2);
}

TEST_F(EvaluationFiles, HeadersAreNamed) {
  config_.task = Task::classify;
  const auto error_in = [&](LossTask task, const std::string& text) {
    return error_of([&] { read(task, text); });
  };
  const ErrorDetail header = error_in(LossTask::classify, "sentence\tlabel\na cat\t1\n");
  EXPECT_EQ(header.what, "data: the first line is a header");
  EXPECT_THAT(header.where, testing::HasSubstr("line 1"));
  EXPECT_EQ(error_in(LossTask::similarity, "idx\tSentence1\tsentence2\tscore\n").what,
            "data: the first line is a header");
  EXPECT_THAT(error_in(LossTask::classify, "film\tgood\na cat\t1\n").hint,
              testing::HasSubstr("header"));
  EXPECT_EQ(error_in(LossTask::classify, "a cat\t1\nfilm\tgood\n").hint, "");
}

TEST_F(EvaluationFiles, LabelsWhereTextsAreWantedAreNamed) {
  const auto hint_of = [&](LossTask task, const std::string& text) {
    return error_of([&] { read(task, text); }).hint;
  };
  EXPECT_THAT(hint_of(LossTask::fidelity, "a cat\t1\na dog\t0\n"),
              testing::HasSubstr("--loss classify"));
  EXPECT_THAT(hint_of(LossTask::mlm, "a cat\tLABEL_1\n"), testing::HasSubstr("--loss classify"));
  EXPECT_THAT(hint_of(LossTask::fidelity, "a cat\ta dog\t0.5\n"),
              testing::HasSubstr("--loss similarity"));
  // A tab in some text makes no labels.
  EXPECT_EQ(read(LossTask::fidelity, "a cat\t1\nthe dog sat\n").size(), 2);
  EXPECT_EQ(read(LossTask::fidelity, "a cat\tthe dog sat\n").size(), 1);
}

TEST_F(EvaluationFiles, ThatAreRefused) {
  EXPECT_THROW(read(LossTask::lm, "the cat\n"), Error);  // no such output
  EXPECT_THROW(read(LossTask::fidelity, "\n\n"), Error);
  EXPECT_THROW(read(LossTask::similarity, "a cat\ta dog\tmuch\n"), Error);
  EXPECT_THROW(read(LossTask::similarity, "a cat\ta dog\tnan\n"), Error);
  EXPECT_THROW(read(LossTask::similarity, "a cat\t1\n"), Error);
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += "cat ";
  EXPECT_THROW(read(LossTask::fidelity, long_text), Error);
  config_.task = Task::classify;
  for (const char* label : {"2", "-1", "LABEL_2", "1.0", ""}) {
    EXPECT_THROW(read(LossTask::classify, std::string("a cat\t") + label + "\n"), Error) << label;
  }
  config_.regression = true;
  EXPECT_THROW(read(LossTask::classify, "a cat\t1\n"), Error);
  EXPECT_THROW(read_evaluation(LossTask::fidelity, {}, tokenizer_, config_), Error);
}

}  // namespace
}  // namespace headwise
