// Settings of a training: what is read, and what is refused.
#include "headwise/train/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/io_testing.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

namespace fs = std::filesystem;

const json kSettings = {
    {"task", "translation"},
    {"model", {{"architecture", "marian"}, {"hidden_size", 32}, {"layers", 1}, {"heads", 2}}},
    {"data",
     {{"train", {{"source", "a.en.gz"}, {"target", "a.de.gz"}}},
      {"validation", {{"source", "b.en"}, {"target", "b.de"}}},
      {"length", 64}}},
    {"epochs", 3}};

json with(const json& changes, json base = kSettings) {
  base.merge_patch(changes);
  return base;
}

TrainSettings parse(const json& settings) {
  return parse_train_settings(settings.dump(), "settings.json", "/data");
}

void expect_refused(const json& settings, const std::string& field, const std::string& what,
                    const std::string& expected) {
  const ErrorDetail error = error_of([&] { parse(settings); });
  EXPECT_EQ(error.where, "settings.json: " + field);
  EXPECT_THAT(error.what, HasSubstr(what));
  EXPECT_THAT(error.expected, HasSubstr(expected));
}

TEST(TrainSettings, AreReadWithTheirDefaults) {
  const TrainSettings s = parse(with({{"optimizer", {{"rate", 1e-3}, {"beta2", 0.98}}},
                                      {"schedule", {{"kind", "inverse_sqrt"}, {"warmup", 40}}},
                                      {"evaluate", {{"metric", "bleu"}, {"patience", 2}}},
                                      {"keep", {{"average", 5}}},
                                      {"freeze", {"embeddings", "enc.L0"}},
                                      {"seed", 7}}));
  EXPECT_EQ(s.task, TrainTask::translation);
  ASSERT_TRUE(s.scratch);
  EXPECT_EQ(s.scratch->feed_forward, 128);
  EXPECT_EQ(s.data.train.files, (std::vector<fs::path>{"/data/a.en.gz", "/data/a.de.gz"}));
  EXPECT_TRUE(s.data.test.empty());
  EXPECT_EQ(s.data.length, 64);
  EXPECT_EQ(s.tokens_per_batch, 2000);
  EXPECT_EQ(s.epochs, 3);
  EXPECT_EQ(s.optimizer.rate, 1e-3);
  EXPECT_EQ(s.optimizer.beta1, 0.9);
  EXPECT_EQ(s.optimizer.beta2, 0.98);
  EXPECT_EQ(s.schedule.kind, ScheduleKind::inverse_sqrt);
  EXPECT_EQ(s.schedule.warmup, 40);
  EXPECT_EQ(s.evaluate.metric, Metric::bleu);
  EXPECT_EQ(s.evaluate.beam, 5);
  EXPECT_EQ(s.evaluate.patience, 2);
  EXPECT_EQ(s.average, 5);
  EXPECT_EQ(s.freeze.size(), 2u);
  EXPECT_EQ(s.seed, 7u);
  EXPECT_EQ(s.dropout, 0.1f);
}

TEST(TrainSettings, OfOtherTasksHaveOneFile) {
  const json settings = {{"task", "classification"},
                         {"model", "./folder"},
                         {"data", {{"train", "train.tsv"}, {"validation", "/dev.tsv"}}},
                         {"steps", 10}};
  const TrainSettings s = parse(settings);
  EXPECT_FALSE(s.scratch);
  EXPECT_EQ(s.data.validation.files, std::vector<fs::path>{"/dev.tsv"});
  EXPECT_EQ(s.evaluate.metric, Metric::accuracy);
  const json text = json::parse(s.text);
  EXPECT_EQ(text["data"]["train"], "/data/train.tsv");
}

TEST(TrainSettings, HaveAnIdentityWithoutPlacesAndSeed) {
  const std::string identity = parse(kSettings).identity;
  EXPECT_EQ(parse(with({{"seed", 3}})).identity, identity);
  EXPECT_EQ(parse(with({{"data", {{"train", {{"source", "x"}}}}}})).identity, identity);
  EXPECT_NE(parse(with({{"data", {{"length", 63}}}})).identity, identity);
  EXPECT_NE(parse(with({{"dropout", 0.2}})).identity, identity);
  const TrainSettings again =
      parse_train_settings(parse(kSettings).text, "settings.json", "/elsewhere");
  EXPECT_EQ(again.identity, identity);
  EXPECT_EQ(again.data.train.files, parse(kSettings).data.train.files);
}

TEST(TrainSettings, RefuseWhatTheyDoNotKnow) {
  expect_refused(with({{"learning_rate", 1}}), "learning_rate", "not known", "optimizer");
  expect_refused(with({{"optimizer", {{"lr", 1}}}}), "optimizer.lr", "not known", "rate");
  expect_refused(with({{"schedule", {{"kind", "step"}}}}), "schedule.kind", "not known",
                 "inverse_sqrt");
  expect_refused(with({{"task", "chess"}}), "task", "not known", "causal_lm");
  expect_refused(with({{"gates", {{"kind", "hard_concrete"}}}}), "gates.l0", "missing", "");
  expect_refused(with({{"gates", {{"kind", "soft"}, {"l0", 1}}}}), "gates.kind", "",
                 "hard_concrete");
  expect_refused(with({{"gates", {{"kind", "hard_concrete"}, {"l0", -1}}}}), "gates.l0",
                 "cannot be this", "0 or more");
  expect_refused(with({{"gates", {{"kind", "hard_concrete"}, {"l0", 1}, {"weights", "half"}}}}),
                 "gates.weights", "", "frozen");
  expect_refused(with({{"log_heads_every", 0}}), "log_heads_every", "no such number", "from 1");
  EXPECT_THAT(error_of([] { parse_train_settings("{", "s.json", "."); }).what,
              HasSubstr("not valid"));
}

TEST(TrainSettings, RefuseWhatDoesNotGoTogether) {
  expect_refused(with({{"steps", 3}}), "epochs", "said twice", "either");
  expect_refused(with({{"epochs", nullptr}}), "epochs", "not said", "either");
  expect_refused(with({{"dropout", 1}}), "dropout", "out of range", "from 0 to 1");
  expect_refused(with({{"optimizer", {{"rate", -1}}}}), "optimizer.rate", "out of range", "from 0");
  expect_refused(with({{"data", {{"train", nullptr}}}}), "data.train", "nothing to train on",
                 "a file");
  expect_refused(with({{"data", {{"train", "a.txt"}}}}), "data.train", "two parallel files",
                 "source");
  expect_refused(with({{"data", {{"train", {{"target", {"x", "y"}}}}}}}), "data.train.target",
                 "more than one file", "one file");
  expect_refused(with({{"data", {{"validation", nullptr}}}, {"evaluate", {{"every", 5}}}}),
                 "evaluate", "nothing to evaluate on", "data.validation");
  expect_refused(with({{"model", {{"max_position_embeddings", 32}}}}),
                 "model.max_position_embeddings", "longer", "at least 64");
  expect_refused(with({{"model", 7}}), "model", "no model", "a folder");
  const json lm = {{"task", "causal_lm"},
                   {"model", "gpt2"},
                   {"data", {{"train", "a"}, {"validation", "b"}}},
                   {"steps", 1}};
  expect_refused(with({{"evaluate", {{"metric", "bleu"}}}}, lm), "evaluate.metric",
                 "for translation", "loss");
  expect_refused(with({{"data", {{"train", {{"source", "a"}}}}}}, lm), "data.train",
                 "for translation", "a file");
}

TEST(TrainSettings, RefuseWhatWouldBeIgnored) {
  const json lm = {{"task", "causal_lm"},
                   {"model", "gpt2"},
                   {"data", {{"train", "a"}, {"validation", "b"}}},
                   {"steps", 1}};
  expect_refused(with({{"data", {{"truncate", true}}}}, lm), "data.truncate", "into blocks",
                 "nothing");
  expect_refused(with({{"evaluate", {{"beam", 2}}}}, lm), "evaluate.beam", "for translation",
                 "nothing");
  expect_refused(with({{"keep", {{"average", 1}}}}), "keep.average", "no such number", "from 2");
  expect_refused(
      with({{"keep", {{"average", 3}}}, {"gates", {{"kind", "hard_concrete"}, {"l0", 1}}}}),
      "keep.average", "the last state is kept", "nothing");
}

}  // namespace
}  // namespace headwise
