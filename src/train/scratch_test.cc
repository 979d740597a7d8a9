// New models: what their settings become in config.json, and which are refused.
#include "train/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "headwise/model/model.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json with_changes(json base, const json& changes) {
  base.update(changes);
  return base;
}

const json kBert = {{"architecture", "bert"}, {"hidden_size", 24}, {"layers", 2}, {"heads", 4}};
const json kMarian = with_changes(kBert, {{"architecture", "marian"}});

ScratchSettings read(const json& model, TrainTask task) {
  return read_scratch(JsonObject(model, "settings.json", "model"), task);
}

std::string config_text(const json& model, TrainTask task) {
  return scratch_config(
      read(model, task),
      {.task = task, .vocabulary = 500, .special = {.bos = 3, .eos = 2, .pad = 1}});
}

ModelConfig config_of(const json& model, TrainTask task) {
  return parse_config(config_text(model, task), "config.json");
}

void expect_refused(const json& model, TrainTask task, const std::string& field,
                    const std::string& what, const std::string& expected) {
  const ErrorDetail error = error_of([&] { read(model, task); });
  EXPECT_EQ(error.where, "settings.json: model." + field);
  EXPECT_THAT(error.what, HasSubstr(what));
  EXPECT_THAT(error.expected, HasSubstr(expected));
}

TEST(Scratch, WritesPlainFieldsWhereTheArchitectureHasThem) {
  for (const auto& [architecture, task] :
       {std::pair("bert", TrainTask::masked_lm), std::pair("bert", TrainTask::similarity),
        std::pair("gpt2", TrainTask::causal_lm), std::pair("llama", TrainTask::causal_lm),
        std::pair("llama", TrainTask::classification),
        std::pair("marian", TrainTask::translation)}) {
    const json model = with_changes(kBert, {{"architecture", architecture}});
    EXPECT_FALSE(json::parse(config_text(model, task)).contains("headwise")) << architecture;
    const ModelConfig config = config_of(model, task);
    EXPECT_EQ(config.model_type, architecture);
    EXPECT_EQ(config.width, 24);
    EXPECT_EQ(config.vocabulary, 500);
    EXPECT_TRUE(config.tied);
    for (const AttentionSite& site : attention_sites(config)) {
      EXPECT_EQ(site.heads.size(), 4u) << architecture;
      EXPECT_EQ(site.head_dim, 6) << architecture;
    }
  }
}

TEST(Scratch, GivesEveryTaskItsClass) {
  const auto task_of = [](const char* architecture, TrainTask task) {
    return config_of(with_changes(kBert, {{"architecture", architecture}}), task).task;
  };
  EXPECT_EQ(task_of("bert", TrainTask::masked_lm), Task::masked_lm);
  EXPECT_EQ(task_of("bert", TrainTask::classification), Task::classify);
  EXPECT_EQ(task_of("bert", TrainTask::similarity), Task::hidden);
  EXPECT_EQ(task_of("gpt2", TrainTask::causal_lm), Task::causal_lm);
  EXPECT_EQ(task_of("llama", TrainTask::causal_lm), Task::causal_lm);
  EXPECT_EQ(task_of("marian", TrainTask::translation), Task::seq2seq_lm);
}

TEST(Scratch, LlamaHasFieldsForGroupsAndTheWidthOfHeads) {
  const json model =
      with_changes(kBert, {{"architecture", "llama"}, {"kv_heads", 2}, {"head_dim", 10}});
  EXPECT_FALSE(json::parse(config_text(model, TrainTask::causal_lm)).contains("headwise"));
  const ModelConfig config = config_of(model, TrainTask::causal_lm);
  EXPECT_EQ(config.decoder.attention[1].kv_heads.size(), 2u);
  EXPECT_EQ(config.decoder.attention[1].head_dim, 10);
}

TEST(Scratch, HeadsByLayerAndByKind) {
  const auto heads = [](const ModelConfig& config) {
    std::string text;
    for (const AttentionSite& site : attention_sites(config)) {
      text += site.name + " " + std::to_string(site.heads.size()) + "x" +
              std::to_string(site.head_dim) + "/" + std::to_string(site.value_dim) + " ";
    }
    return text;
  };
  EXPECT_EQ(heads(config_of(with_changes(kBert, {{"heads", {2, 6}}}), TrainTask::masked_lm)),
            "L0 2x12/12 L1 6x4/4 ");
  EXPECT_EQ(
      heads(config_of(with_changes(kBert, {{"heads", 1}, {"head_dim", 5}, {"value_dim", {3, 4}}}),
                      TrainTask::masked_lm)),
      "L0 1x5/3 L1 1x5/4 ");
  EXPECT_EQ(
      heads(config_of(
          with_changes(kMarian, {{"layers", {{"encoder", 1}, {"decoder", 2}}},
                                 {"heads", {{"encoder", 3}, {"decoder", {2, 1}}, {"cross", 8}}}}),
          TrainTask::translation)),
      "enc.L0 3x8/8 dec.L0 2x12/12 dec.L1 1x24/24 cross.L0 8x3/3 cross.L1 8x3/3 ");
  const json text =
      json::parse(config_text(with_changes(kBert, {{"heads", {2, 6}}}), TrainTask::masked_lm));
  EXPECT_EQ(text["model_type"], "headwise_bert");
}

TEST(Scratch, RefusesWhatDoesNotGoTogether) {
  using enum TrainTask;
  expect_refused(with_changes(kBert, {{"heads", 5}}), masked_lm, "heads",
                 "does not divide among 5 heads", "divides 24");
  expect_refused(with_changes(kBert, {{"heads", {2, 2, 2}}}), masked_lm, "heads",
                 "not one number per layer", "2 numbers");
  expect_refused(with_changes(kBert, {{"heads", {{"encoder", 2}}}}), masked_lm, "heads",
                 "only one kind of attention", "a number");
  expect_refused(with_changes(kMarian, {{"heads", {{"encoder", 2}, {"decoder", 2}}}}), translation,
                 "heads.cross", "missing", "");
  expect_refused(with_changes(kBert, {{"kv_heads", 3}}), masked_lm, "kv_heads", "do not divide",
                 "divides 4");
  expect_refused(with_changes(kBert, {{"architecture", "llama"}, {"heads", {2, 4}}}), causal_lm,
                 "heads", "all heads are of one width", "the same head_dim");
  expect_refused(with_changes(kBert, {{"architecture", "llama"}, {"heads", 8}}), causal_lm,
                 "head_dim", "pairs of columns", "even");
  expect_refused(kBert, causal_lm, "architecture", "does not do causal_lm", "gpt2 or llama");
  expect_refused(with_changes(kBert, {{"architecture", "t5"}}), masked_lm, "architecture",
                 "not known", "bert, for masked_lm");
  expect_refused(with_changes(kBert, {{"activation", "mish"}}), masked_lm, "activation",
                 "not known", "relu");
  expect_refused(with_changes(kBert, {{"routing", {{"shared", 1}}}}), masked_lm, "routing.active",
                 "missing", "");
  expect_refused(with_changes(kBert, {{"routing", {{"shared", 2}, {"active", 3}}}}), masked_lm,
                 "routing.active", "L0 has 4 learned heads, of which 2 are shared", "at most");
  expect_refused(with_changes(kBert, {{"fixed", {{"L0.H4", "previous"}}}}), masked_lm,
                 "fixed.L0.H4", "no such head", "L0.H0");
  expect_refused(with_changes(kBert, {{"fixed", {{"L0.H1", "window(0)"}}}}), masked_lm,
                 "fixed.L0.H1", "the pattern is not known", "window(n)");
  expect_refused(with_changes(kBert, {{"depth", 4}}), masked_lm, "depth", "not known", "layers");
  expect_refused(with_changes(kBert, {{"hidden_size", 0}}), masked_lm, "hidden_size",
                 "no such number", "from 1");
}

TEST(Scratch, RefusesModelsThatDoNotFitIntoMemory) {
  using enum TrainTask;
  json large = {
      {"architecture", "gpt2"}, {"hidden_size", 1 << 20}, {"layers", 4096}, {"heads", 16}};
  expect_refused(large, causal_lm, "hidden_size", "does not fit into the memory", "parameters");
  large = {{"architecture", "gpt2"},
           {"hidden_size", 64},
           {"layers", 4096},
           {"heads", 4},
           {"feed_forward", 1 << 20}};
  expect_refused(large, causal_lm, "feed_forward", "does not fit into the memory", "parameters");
}

TEST(Scratch, WritesFixedHeadsAndRouting) {
  const json model =
      with_changes(kMarian, {{"heads", {{"encoder", 4}, {"decoder", 2}, {"cross", 3}}},
                             {"fixed", {{"enc.L1.H2", "next"}, {"cross.L0.H2", "first"}}},
                             {"routing", {{"shared", 1}, {"active", 1}}}});
  const ModelConfig config = config_of(model, TrainTask::translation);
  EXPECT_EQ(config.encoder.attention[1].heads, (std::vector<int32_t>{0, 1, 3, 2}));
  ASSERT_EQ(config.encoder.attention[1].fixed.size(), 1u);
  EXPECT_EQ(to_string(config.encoder.attention[1].fixed[0]), "next");
  EXPECT_EQ(config.encoder.attention[1].routing->heads, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(config.decoder.attention[0].routing->heads, std::vector<int32_t>{1});
  EXPECT_EQ(config.decoder.cross[0].routing->heads, std::vector<int32_t>{1});
  EXPECT_EQ(config.decoder.cross[0].routing->balance, 0.01f);
  EXPECT_EQ(json::parse(config_text(model, TrainTask::translation))["model_type"],
            "headwise_marian");
}

}  // namespace
}  // namespace headwise
