// headwise::study on a small model: budgets, stages, resuming, same bits.
#include "headwise/study/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <set>
#include <sstream>
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
  StudyOfBert() : model_(load(golden_model("bert"))) {
    std::vector<int64_t> lengths(kTexts);
    for (int64_t i = 0; i < kTexts; ++i) lengths[i] = 4 + i % 9;
    texts_ = texts_of(model_.config().vocabulary, lengths, 5);
  }

  StudyInput input() const {
    StudyInput input;
    for (int64_t b = 0; b < texts_.sequences(); ++b) {
      const auto begin = texts_.ids.begin() + texts_.offsets[b];
      input.data.corpus.texts.push_back(
          {.ids = {begin, texts_.ids.begin() + texts_.offsets[b + 1]}});
    }
    input.data.evaluation = unlabelled(texts_);
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
  const Study made = study(model_, input(), {.keep = 0.75}, out("study"));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(out("study"))) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"evidence.json", "verdict.json", "plan.json", "model",
                                          "samples.json", "summary.json", "report.html"}));
  EXPECT_EQ(made.plan.drop.size(), 3);
  ASSERT_TRUE(made.prune);
  EXPECT_EQ(made.prune->after.heads, model_.heads() - 3);
}

TEST_F(StudyOfBert, WithoutAFolderWritesNothing) {
  const std::set<std::string> before = folder_.names();
  const Study made = study(model_, input(), {.keep = 0.75});
  ASSERT_TRUE(made.pruned);
  EXPECT_EQ(made.pruned->heads(), model_.heads() - 3);
  EXPECT_EQ(folder_.names(), before);
  EXPECT_THROW(study(model_, input(), {.resume = true}), Error);
  const Study written = study(model_, input(), {.keep = 0.75}, out("study"));
  EXPECT_EQ(to_json(made.evidence), to_json(written.evidence));
  EXPECT_EQ(to_json(made.plan), to_json(written.plan));
}

TEST_F(StudyOfBert, NamesTheModelAndTheTexts) {
  const Study made = study(model_, input(), {.keep = 0.75});
  EXPECT_EQ(made.evidence.model.name, "bert");
  EXPECT_EQ(made.evidence.model.sha256, model_.hash());
  EXPECT_EQ(made.verdict.model, made.evidence.model);
  EXPECT_EQ(made.evidence.corpora.at("text").texts, kTexts);
}

/// Heads are chosen on half of the examples, and what is said about the plan comes from the others.
TEST_F(StudyOfBert, ReportsOnExamplesThatDidNotChoose) {
  const Study made = study(model_, input(), {.keep = 0.75}, out("study"));
  EXPECT_EQ(made.evidence.loss->examples, kTexts / 2);
  ASSERT_TRUE(made.plan.held_out);
  const HeldOut& held_out = *made.plan.held_out;
  EXPECT_EQ(held_out.examples, kTexts / 2);
  EXPECT_EQ(held_out.chosen_on, kTexts / 2);
  EXPECT_EQ(held_out.random.draws, 10);
  EXPECT_EQ(held_out.neighbours->of, 10);
  EXPECT_EQ(made.evidence.held_out->examples, kTexts / 2);

  // The same number from the pruned model itself, over the held-out texts.
  const EvaluationSet others = split_examples(unlabelled(texts_)).held_out;
  const Model pruned = load(out("study") / "model");
  const double after = infidelity(pruned, model_, others.examples.all.source);
  EXPECT_NEAR(held_out.loss.after, after, 1e-5 * after + 1e-9);
  EXPECT_EQ(held_out.change, held_out.loss.after);
  EXPECT_LT(held_out.interval->low, held_out.change);
  EXPECT_GT(held_out.interval->high, held_out.change);
  EXPECT_EQ(made.prune->after.loss->value, held_out.loss.after);
  EXPECT_EQ(made.plan.expected.at("loss"), held_out.loss.after);
  const std::vector<CurvePoint>& curve = made.plan.curves.at(made.plan.order);
  const auto of_plan = std::ranges::find(curve, 3, &CurvePoint::removed);
  ASSERT_NE(of_plan, curve.end());
  EXPECT_NEAR(of_plan->loss, held_out.loss.after, 1e-9);
}

/// No seed moves the halves.
TEST_F(StudyOfBert, SplitsTheSameWayForEverySeed) {
  const Study one = study(model_, input(), {.seed = 1}, out("one"));
  const Study two = study(model_, input(), {.seed = 2}, out("two"));
  EXPECT_EQ(one.evidence.loss, two.evidence.loss);
  EXPECT_EQ(one.evidence.held_out->value, two.evidence.held_out->value);
}

TEST_F(StudyOfBert, TakesHeldOutExamplesThatAreGiven) {
  StudyInput with = input();
  const std::vector<int64_t> lengths(30, 8);
  with.held_out = unlabelled(texts_of(model_.config().vocabulary, lengths, 77));
  with.held_out_source = "elsewhere";
  const Study made = study(model_, with, {}, out("study"));
  EXPECT_EQ(made.evidence.loss->examples, kTexts);
  EXPECT_EQ(made.plan.held_out->examples, 30);
  EXPECT_EQ(made.plan.held_out->source, "elsewhere");
  with.held_out->task = LossTask::classify;
  EXPECT_THROW(study(model_, with, {}, out("other")), Error);
}

/// Nothing is reported on the examples that chose the heads.
TEST_F(StudyOfBert, SaysThatTooFewExamplesAreNotSplit) {
  StudyInput few = input();
  few.data.corpus.texts.resize(12);
  std::vector<int64_t> first(12);
  std::iota(first.begin(), first.end(), 0);
  few.data.evaluation = examples_of(*few.data.evaluation, first);
  const Study made = study(model_, few, {}, out("few"));
  EXPECT_EQ(made.evidence.loss->examples, 12);
  EXPECT_EQ(made.plan.held_out->examples, 0);
  EXPECT_THAT(made.plan.held_out->reason, HasSubstr("12 examples are too few"));
  EXPECT_FALSE(made.plan.supported);
  EXPECT_FALSE(made.plan.expected.contains("loss"));
  EXPECT_TRUE(made.plan.curves.empty());
  EXPECT_FALSE(made.prune);
  EXPECT_THAT(in_words(made).help, HasSubstr("20 sentences"));
}

/// Heads of random weights matter as little as heads at random.
TEST_F(StudyOfBert, WritesUnsupportedModelsOnlyIfAsked) {
  StudyInput few = input();
  few.data.evaluation = examples_of(*few.data.evaluation, std::vector<int64_t>{0, 1, 2, 3, 4});
  const Study plain = study(model_, few, {}, out("plain"));
  EXPECT_FALSE(plain.plan.supported);
  EXPECT_FALSE(plain.plan.reasons.empty());
  EXPECT_FALSE(plain.prune);
  EXPECT_FALSE(std::filesystem::exists(out("plain") / "model"));
  EXPECT_THAT(in_words(plain).support, HasSubstr("No model was written"));
  const Study asked = study(model_, few, {.keep = 0.75}, out("asked"));
  EXPECT_EQ(asked.plan.reasons, plain.plan.reasons);
  EXPECT_EQ(asked.plan.drop, plain.plan.drop);
  EXPECT_TRUE(asked.prune);
  EXPECT_TRUE(std::filesystem::exists(out("asked") / "model"));
  EXPECT_THAT(in_words(asked).support, HasSubstr("--keep was given"));
}

/// Passes that overlap show no saving, however far apart their medians are.
TEST(StudyWords, NameTimeOnlyBeyondItsSpread) {
  Study made;
  made.savings.speed = SpeedComparison{.texts = 8,
                                       .tokens = 128,
                                       .before = 0.100,
                                       .after = 0.090,
                                       .before_interval = {0.094, 0.120},
                                       .after_interval = {0.088, 0.095}};
  EXPECT_THAT(in_words(made).savings, HasSubstr("no measurable time (100 -> 90 ms"));
  EXPECT_THAT(in_words(made).savings, HasSubstr("94 to 120 ms before, 88 to 95 ms after"));
  EXPECT_THAT(in_words(made).pays, HasSubstr("does not pay for speed"));
  made.savings.speed->after_interval.high = 0.093;
  EXPECT_THAT(in_words(made).savings, HasSubstr("10 % of the time (100 -> 90 ms"));
  EXPECT_THAT(in_words(made).pays, HasSubstr("It pays"));
  made.savings.speed->after = 0.099;  // little, but more than the spread
  made.savings.speed->after_interval = {0.0985, 0.0995};
  made.savings.speed->before_interval = {0.0998, 0.1001};
  EXPECT_THAT(in_words(made).savings, HasSubstr("1.0 % of the time"));
}

TEST(StudyWords, CompareWithRandomHeadsOnlyWhereTheyWereDrawn) {
  Study made;
  made.plan.drop = {"L0.H1"};
  made.plan.held_out = HeldOut{.examples = 50,
                               .task = "lm",
                               .change = 0.1,
                               .interval = ConfidenceInterval{0.05, 0.15},
                               .random = {.draws = 10, .change = 0.3, .median = 0.2}};
  HeldOut& held_out = *made.plan.held_out;
  EXPECT_THAT(in_words(made).comparison, HasSubstr("beyond its 95 % interval"));
  held_out.random.median = 0.12;
  EXPECT_THAT(in_words(made).comparison, HasSubstr("but its 95 % interval includes them"));
  held_out.interval.reset();
  EXPECT_THAT(in_words(made).comparison, testing::EndsWith("heads at random"));
  held_out.random = {};
  EXPECT_EQ(in_words(made).comparison, "");
  made.plan.supported = false;
  held_out.random.draws = 10;
  EXPECT_EQ(in_words(made).comparison, "");
}

/// The numbers of the headline are those of all heads.
TEST_F(StudyOfBert, CountsEveryHeadInTheHeadline) {
  const Study made = study(model_, input(), {}, out("study"));
  const std::string words = in_words(made).importance;
  int64_t sum = 0;
  std::string numbers = words.substr(0, words.find(':'));
  for (char& c : numbers) c = std::isdigit(static_cast<unsigned char>(c)) != 0 ? c : ' ';
  std::istringstream stream(numbers);
  for (int64_t number; stream >> number;) sum += number;
  EXPECT_EQ(sum, model_.heads()) << words;
}

TEST_F(StudyOfBert, CountsItsStagesInPasses) {
  const Study made = study(model_, input(), {.keep = 0.75}, out("study"));
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
  const Study poor = study(model_, input(), {.passes = 1}, out("poor"));
  EXPECT_EQ(examples(poor), std::set<int64_t>{16});
  const Study thorough = study(model_, input(), {.thorough = true}, out("thorough"));
  EXPECT_EQ(examples(thorough), std::set<int64_t>{kTexts / 2});
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
  EXPECT_LE(*examples(study(model_, more, {}, out("usual"))).rbegin(), kTexts / 2);
  const Study rich = study(model_, more, {.passes = 5000}, out("rich"));
  for (const HeadEvidence& head : rich.evidence.heads) {
    const Measure& measure = *head.measures.find("ablation_zero");
    const bool decided = rich.verdict.head(head.head).standing != Standing::undecided;
    if (!decided) {
      EXPECT_EQ(measure.n, kTexts / 2 + 200) << head.head;
    }
  }
  EXPECT_GT(*examples(rich).rbegin(), kTexts / 2) << "no head was undecided after all texts";
  EXPECT_EQ(rich.evidence.loss->examples, kTexts / 2);
  EXPECT_EQ(rich.plan.held_out->chosen_on, *examples(rich).rbegin());
  EXPECT_EQ(rich.plan.held_out->examples, kTexts / 2);
}

TEST_F(StudyOfBert, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  set_threads(1);
  const Study one = study(model_, input(), {}, out("one"));
  set_threads(2);
  const Study two = study(model_, input(), {}, out("two"));
  set_threads(before);
  EXPECT_EQ(to_json(one.evidence), to_json(two.evidence));
  EXPECT_EQ(to_json(one.verdict), to_json(two.verdict));
  EXPECT_EQ(one.plan, two.plan);
}

struct Stopped : std::runtime_error {
  Stopped() : runtime_error("stopped") {}
};

TEST_F(StudyOfBert, GoesOnWhereItWasStopped) {
  const Study whole = study(model_, input(), {.keep = 0.75}, out("whole"));
  for (const char* const stage : {"gradients", "groups", "plan", "prune"}) {
    const std::filesystem::path folder = out(stage);
    StudyOptions options{.keep = 0.75};
    options.progress = [&](const StudyProgress& progress) {
      if (progress.stage == stage) throw Stopped();
    };
    EXPECT_THROW(study(model_, input(), options, folder), Stopped) << stage;
    EXPECT_FALSE(std::filesystem::exists(folder / "summary.json"));
    EXPECT_THROW(study(model_, input(), {.keep = 0.75}, folder), Error) << "it needs --resume";
    EXPECT_THROW(study(model_, input(), {.resume = true, .keep = 0.5}, folder), Error);
    std::set<std::string> stages;
    StudyOptions again{.resume = true, .keep = 0.75};
    again.progress = [&](const StudyProgress& progress) {
      stages.insert(std::string(progress.stage));
    };
    const Study resumed = study(model_, input(), again, folder);
    EXPECT_FALSE(stages.contains("attention")) << "done before " << stage;
    EXPECT_EQ(to_json(resumed.evidence), to_json(whole.evidence)) << stage;
    EXPECT_EQ(resumed.plan, whole.plan) << stage;
    EXPECT_FALSE(std::filesystem::exists(folder / "study.json.part"));
  }
}

/// A kill before the last file of a finished study is removed.
TEST_F(StudyOfBert, LeavesAFinishedStudyAlone) {
  (void)study(model_, input(), {.keep = 0.75}, out("done"));
  for (const char* const part : {"study.json.part", "evidence.json.part"}) {
    folder_.write(std::filesystem::path("done") / part, "{}");
    const ErrorDetail error = error_of(
        [&] { (void)study(model_, input(), {.resume = true, .keep = 0.75}, out("done")); });
    EXPECT_EQ(error.got, "a study that is finished") << part;
    EXPECT_TRUE(std::filesystem::exists(out("done") / "model/config.json")) << part;
    std::filesystem::remove(out("done") / part);
  }
}

/// A kill before the first file has its name.
TEST_F(StudyOfBert, GoesOnWhereItsFirstSaveWasKilled) {
  const std::string killed = "killed/.study.json.part." + std::to_string(dead_process());
  folder_.write(killed + ".0.part", R"({"budget": 1)");
  EXPECT_THROW(study(model_, input(), {}, out("killed")), Error) << "it needs --resume";
  const Study resumed = study(model_, input(), {.resume = true}, out("killed"));
  EXPECT_EQ(to_json(resumed.evidence), to_json(study(model_, input(), {}, out("whole")).evidence));
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
  const Study made = study(model_, input(), options, out("study"));
  EXPECT_NEAR(seconds, passes * made.pass_seconds, 1e-9);
  EXPECT_GT(passes, 10);
}

TEST_F(StudyOfBert, RefusesAFolderWithOtherFiles) {
  folder_.write("full/file", "something");
  try {
    (void)study(model_, input(), {.resume = true}, out("full"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("new or empty"));
  }
}

}  // namespace
}  // namespace headwise
