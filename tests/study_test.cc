// headwise::study on a small model: budgets, stages, resuming, same bits.
#include "headwise/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "io/io_testing.h"
#include "texts_testing.h"

namespace headwise {
namespace {

using testing::HasSubstr;

constexpr int64_t kTexts = 70;

class StudyOfBert : public testing::Test {
 protected:
  StudyOfBert() : model_(Model::load(golden_model("bert"))) {
    std::vector<int64_t> lengths(kTexts);
    for (int64_t i = 0; i < kTexts; ++i) lengths[i] = 4 + i % 9;
    texts_ = texts_of(model_.config().vocabulary, lengths, 5);
  }

  StudyInput input() const {
    StudyInput input{.model = model_, .folder = golden_model("bert")};
    for (int64_t b = 0; b < texts_.texts(); ++b) {
      const auto begin = texts_.ids.begin() + texts_.offsets[b];
      input.data.corpus.texts.push_back(
          {.ids = {begin, texts_.ids.begin() + texts_.offsets[b + 1]}});
    }
    input.data.evaluation = unlabelled(texts_);
    input.data.folder = input.folder;
    input.identity = no_evidence(model_);
    return input;
  }

  std::filesystem::path out(const char* name) const { return folder_.path() / name; }

  /// The examples that heads got.
  static std::set<int64_t> examples(const Study& study) {
    std::set<int64_t> counts;
    for (const HeadEvidence& head : study.evidence.heads) {
      counts.insert(head.measures.find("ablation_zero")->n);
    }
    return counts;
  }

  TemporaryFolder folder_;
  Model model_;
  TokenBatch texts_;
};

TEST_F(StudyOfBert, LeavesAllItsFilesAndNothingElse) {
  const Study made = study(input(), {}, out("study"));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(out("study"))) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"evidence.json", "verdict.json", "plan.json", "model",
                                          "samples.json", "summary.json", "report.html"}));
  EXPECT_EQ(made.plan.drop.size(), 3);
  EXPECT_EQ(made.prune.after.heads, model_.heads() - 3);
}

TEST_F(StudyOfBert, CountsItsStagesInPasses) {
  const Study made = study(input(), {}, out("study"));
  std::set<std::string> names;
  double seconds = 0;
  for (const StudyStage& stage : made.stages) {
    EXPECT_TRUE(names.insert(stage.name).second) << stage.name;
    EXPECT_NEAR(stage.passes * made.pass_seconds, stage.seconds, 1e-9) << stage.name;
    seconds += stage.seconds;
  }
  for (const char* name : {"load", "attention", "similarity", "gradients", "ablation", "groups",
                           "plan", "prune", "report"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_NEAR(seconds, made.seconds(), 1e-9);
  EXPECT_EQ(made.budget, usual_passes(model_));
}

/// The first look is at 16 examples, which is what a budget of one pass gives every head.
TEST_F(StudyOfBert, StopsWhenItsBudgetIsSpent) {
  const Study poor = study(input(), {.passes = 1}, out("poor"));
  EXPECT_EQ(examples(poor), std::set<int64_t>{16});
  const Study thorough = study(input(), {.thorough = true}, out("thorough"));
  EXPECT_EQ(examples(thorough), std::set<int64_t>{kTexts});
  EXPECT_EQ(thorough.budget, 0);
  for (const HeadEvidence& head : thorough.evidence.heads) {
    EXPECT_NE(head.measures.find("ablation_mean"), nullptr);
    EXPECT_EQ(poor.evidence.head(head.head).measures.find("ablation_mean"), nullptr);
  }
}

/// Further examples are for heads that are undecided after all texts, and only for a larger budget.
TEST_F(StudyOfBert, TakesMoreExamplesForUndecidedHeads) {
  StudyInput more = input();
  std::vector<int64_t> lengths(200, 7);
  more.more = unlabelled(texts_of(model_.config().vocabulary, lengths, 1));
  EXPECT_LE(*examples(study(more, {}, out("usual"))).rbegin(), kTexts);
  const Study rich = study(more, {.passes = 5000}, out("rich"));
  for (const HeadEvidence& head : rich.evidence.heads) {
    const Measure& measure = *head.measures.find("ablation_zero");
    const bool decided = rich.verdict.head(head.head).standing != Standing::undecided;
    if (!decided) {
      EXPECT_EQ(measure.n, kTexts + 200) << head.head;
    }
  }
  EXPECT_EQ(rich.evidence.loss->examples, kTexts);
}

TEST_F(StudyOfBert, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  set_threads(1);
  const Study one = study(input(), {}, out("one"));
  set_threads(2);
  const Study two = study(input(), {}, out("two"));
  set_threads(before);
  EXPECT_EQ(to_json(one.evidence), to_json(two.evidence));
  EXPECT_EQ(to_json(one.verdict), to_json(two.verdict));
  EXPECT_EQ(one.plan, two.plan);
}

struct Stopped : std::runtime_error {
  Stopped() : runtime_error("stopped") {}
};

TEST_F(StudyOfBert, GoesOnWhereItWasStopped) {
  const Study whole = study(input(), {}, out("whole"));
  for (const char* const stage : {"gradients", "groups", "plan", "prune"}) {
    const std::filesystem::path folder = out(stage);
    StudyOptions options;
    options.progress = [&](const StudyProgress& progress) {
      if (progress.stage == stage) throw Stopped();
    };
    EXPECT_THROW(study(input(), options, folder), Stopped) << stage;
    EXPECT_FALSE(std::filesystem::exists(folder / "summary.json"));
    EXPECT_THROW(study(input(), {}, folder), Error) << "it needs --resume";
    EXPECT_THROW(study(input(), {.resume = true, .keep = 0.5}, folder), Error);
    std::set<std::string> stages;
    StudyOptions again{.resume = true};
    again.progress = [&](const StudyProgress& progress) {
      stages.insert(std::string(progress.stage));
    };
    const Study resumed = study(input(), again, folder);
    EXPECT_FALSE(stages.contains("attention")) << "done before " << stage;
    EXPECT_EQ(to_json(resumed.evidence), to_json(whole.evidence)) << stage;
    EXPECT_EQ(resumed.plan, whole.plan) << stage;
    EXPECT_FALSE(std::filesystem::exists(folder / "study.json.part"));
  }
}

/// A kill before the first file has its name.
TEST_F(StudyOfBert, GoesOnWhereItsFirstSaveWasKilled) {
  folder_.write("killed/.study.json.part.123.0.part", R"({"budget": 1)");
  EXPECT_THROW(study(input(), {}, out("killed")), Error) << "it needs --resume";
  const Study resumed = study(input(), {.resume = true}, out("killed"));
  EXPECT_EQ(to_json(resumed.evidence), to_json(study(input(), {}, out("whole")).evidence));
  for (const auto& entry : std::filesystem::directory_iterator(out("killed"))) {
    EXPECT_FALSE(entry.path().filename().string().ends_with(".part")) << entry.path();
  }
}

TEST_F(StudyOfBert, SaysBeforeItStartsWhatItCosts) {
  double passes = 0, seconds = 0;
  StudyOptions options;
  options.started = [&](double of_passes, double of_seconds) {
    passes = of_passes;
    seconds = of_seconds;
  };
  const Study made = study(input(), options, out("study"));
  EXPECT_NEAR(seconds, passes * made.pass_seconds, 1e-9);
  EXPECT_GT(passes, 10);
}

TEST_F(StudyOfBert, RefusesAFolderWithOtherFiles) {
  folder_.write("full/file", "something");
  try {
    (void)study(input(), {.resume = true}, out("full"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("new or empty"));
  }
}

}  // namespace
}  // namespace headwise
