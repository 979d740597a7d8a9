// Pruned models: compact equals masked equals gates of 0, in every architecture; what is in their
// folders; what cannot be pruned so.
#include "headwise/prune/prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "headwise/io/tensor_file.h"
#include "headwise/model/summary.h"
#include "headwise/plan/follow_plan.h"
#include "io/io_testing.h"
#include "prune/equivalence.h"
#include "prune_testing.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

/// Of each attention the heads whose number leaves `rest` when divided by 3; all of the second one.
std::vector<std::string> every_third(const Model& model, int64_t rest) {
  std::vector<std::string> heads;
  for (size_t i = 0; i < model.attentions().size(); ++i) {
    const AttentionSite& site = model.attentions()[i];
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      if (i == 1 || site.heads[h] % 3 == rest) heads.push_back(site.head_name(h));
    }
  }
  return heads;
}

class PrunedModels : public testing::TestWithParam<std::string> {};

TEST_P(PrunedModels, CompactEqualsMaskedEqualsGates) {
  const TemporaryFolder temporary;
  const fs::path folder = golden_model(GetParam()), compact = temporary.path() / "compact",
                 masked = temporary.path() / "masked";
  const Model model = load(folder);
  const std::vector<std::string> drop = every_third(model, 1);
  const Texts texts(model.config());
  const Activations gated = hidden(model, texts, gates_without(model, drop));
  const EquivalenceCheck proof = prune_to(folder, drop, compact);
  EXPECT_LE(proof.max_difference, kTolerance);
  EXPECT_TRUE(proof.random_ids);
  prune_to(folder, drop, masked, {.form = PruneForm::masked});
  const Model small = load(compact);
  EXPECT_LE(difference(gated, hidden(small, texts)), kTolerance);
  EXPECT_EQ(small.heads() + std::ssize(drop), model.heads());
  if (!drop.empty()) {
    EXPECT_LT(summarize(compact).parameters, summarize(folder).parameters);
  }
  EXPECT_EQ(summarize(masked).parameters, summarize(folder).parameters);
  // Gates of grouped and of routed heads let the kernel put other rows together.
  const bool alone = std::ranges::all_of(model.attentions(), [&](const AttentionSite& site) {
    return site.kv_heads == std::ssize(site.heads) && !GetParam().ends_with("_routed") &&
           !GetParam().ends_with("_mixed");
  });
  EXPECT_LE(difference(gated, hidden(load(masked), texts)), alone ? 0 : kTolerance);
}

TEST_P(PrunedModels, CanBePrunedAgain) {
  const TemporaryFolder temporary;
  const Model model = load(golden_model(GetParam()));
  const Texts texts(model.config());
  std::vector<std::string> gone;
  fs::path last = golden_model(GetParam());
  for (const int64_t round : {1, 2, 0}) {  // the last leaves no head at all
    const Model now = load(last);
    const std::vector<std::string> drop = every_third(now, round);
    gone.insert(gone.end(), drop.begin(), drop.end());
    const fs::path out = temporary.path() / std::to_string(round);
    // By masked ones, too.
    prune_to(last, drop, out, {.form = round == 2 ? PruneForm::masked : PruneForm::compact});
    last = out;
    EXPECT_LE(
        difference(hidden(model, texts, gates_without(model, gone)), hidden(load(last), texts)),
        kTolerance)
        << "round " << round;
  }
}

/// A hundredth of a head is more than rounding.
TEST_P(PrunedModels, TheProofCanFail) {
  const TemporaryFolder temporary;
  const fs::path folder = golden_model(GetParam());
  const Model model = load(folder);
  std::vector<std::string> drop = every_third(model, 1);
  if (drop.empty()) drop = every_third(model, 0);  // those were pruned before
  prune_to(folder, drop, temporary.path() / "compact");
  const Model compact = load(temporary.path() / "compact");
  const Texts texts(model.config());
  std::vector<float> gates = gates_without(model, drop);
  const auto proof = [&] {
    return compare_models(compact, model, gates, texts.source, texts.target);
  };
  EXPECT_NO_THROW(require_same(proof(), model, "out"));
  std::ranges::replace(gates, 0.f, 0.01f);
  EXPECT_THAT(error_of([&] { require_same(proof(), model, "out"); }).what, HasSubstr("not kept"));
}

INSTANTIATE_TEST_SUITE_P(Models, PrunedModels, testing::ValuesIn(golden_model_names()),
                         [](const auto& info) { return info.param; });

TEST(Prune, KeepsTypesBytesAndMetadata) {
  for (const char* name : {"bert_half", "llama_bfloat16", "gpt2", "bert_of_2018"}) {
    const TemporaryFolder temporary;
    const fs::path folder = golden_model(name), out = temporary.path() / "out";
    prune_to(folder, {"L0.H1"}, out);
    const TensorFiles before = TensorFiles::open(folder), after = TensorFiles::open(out);
    EXPECT_EQ(before.metadata(), after.metadata());
    ASSERT_EQ(before.tensors().size(), after.tensors().size());
    int64_t changed = 0;
    for (const TensorInfo& tensor : before.tensors()) {
      const TensorInfo* const left = after.find(tensor.name);
      ASSERT_NE(left, nullptr) << tensor.name;
      EXPECT_EQ(left->dtype, tensor.dtype);
      changed += left->shape != tensor.shape ? 1 : 0;
      if (left->shape == tensor.shape) {
        EXPECT_TRUE(std::ranges::equal(after.bytes(*left).span(), before.bytes(tensor).span()))
            << tensor.name;
      } else {
        // What is left begins with the first head, in the first row or column.
        EXPECT_TRUE(std::ranges::equal(after.bytes(*left).span().first(8),
                                       before.bytes(tensor).span().first(8)));
      }
    }
    EXPECT_GE(changed, 2) << name;  // keys and values of a group stay
  }
}

TEST(Prune, KeepsShardsAndOtherFiles) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "model", out = temporary.path() / "new" / "out";
  const TensorFiles files = TensorFiles::open(golden_model("bert"));
  std::vector<TensorToWrite> shards[2];
  json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", json::object()}};
  for (size_t i = 0; i < files.tensors().size(); ++i) {
    const TensorInfo& tensor = files.tensors()[i];
    shards[i % 2].push_back(files.copy_of(tensor));
    index["weight_map"][tensor.name] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
  }
  fs::create_directories(folder);
  write_tensors(folder / "a.safetensors", shards[0], {{"format", "pt"}});
  write_tensors(folder / "b.safetensors", shards[1], {{"format", "pt"}});
  temporary.write("model/model.safetensors.index.json", index.dump());
  temporary.write("model/config.json", contents_of(golden_model("bert") / "config.json"));
  const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwords\n";
  temporary.write("model/vocab.txt", vocabulary);
  temporary.write("model/log.jsonl", "of the training of all heads");
  temporary.write("model/2_Dense/pytorch_model.bin", "kept");
  temporary.write("model/pytorch_model.bin", "the same weights, not pruned");
  prune_to(folder, {"L0.H0", "L1"}, out);
  EXPECT_EQ(contents_of(out / "vocab.txt"), vocabulary);
  EXPECT_EQ(contents_of(out / "2_Dense" / "pytorch_model.bin"), "kept");
  EXPECT_FALSE(fs::exists(out / "pytorch_model.bin"));
  EXPECT_FALSE(fs::exists(out / "log.jsonl"));
  EXPECT_TRUE(fs::exists(out / "modeling_headwise.py"));
  const json written = json::parse(contents_of(out / "model.safetensors.index.json"));
  EXPECT_EQ(written["weight_map"], index["weight_map"]);
  int64_t bytes = 0;
  const TensorFiles pruned = TensorFiles::open(out);
  for (const TensorInfo& tensor : pruned.tensors()) bytes += tensor.byte_count();
  EXPECT_EQ(written["metadata"]["total_size"], bytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(out.parent_path()), {}), 1) << "nothing aside";
}

TEST(Prune, NamesHeadsAndClassesForTransformers) {
  const TemporaryFolder temporary;
  const auto config_of = [&](const char* model, const std::vector<std::string>& drop) {
    const fs::path out = temporary.path() / model;
    prune_to(golden_model(model), drop, out);
    EXPECT_TRUE(fs::exists(out / "modeling_headwise.py"));
    return json::parse(contents_of(out / "config.json"));
  };
  const json bert = config_of("bert", {"L0.H3,L0.H1"});
  EXPECT_EQ(bert["pruned_heads"], (json{{"0", {1, 3}}}));
  EXPECT_EQ(bert["model_type"], "bert");
  EXPECT_EQ(bert["auto_map"]["AutoModel"], "modeling_headwise.BertModel");
  EXPECT_EQ(bert["auto_map"]["AutoModelForMaskedLM"], "modeling_headwise.BertForMaskedLM");
  EXPECT_EQ(bert["auto_map"]["AutoModelForSequenceClassification"],
            "modeling_headwise.BertForSequenceClassification");
  const json gpt2 = config_of("gpt2", {"L1"});
  EXPECT_EQ(gpt2["auto_map"]["AutoModelForCausalLM"], "modeling_headwise.GPT2LMHeadModel");
  const json llama = config_of("llama", {"L1.H0"});
  EXPECT_EQ(llama["auto_map"]["AutoModelForCausalLM"], "modeling_headwise.LlamaForCausalLM");
  const json marian = config_of("marian", {"cross.L1.H0", "enc.L0"});
  EXPECT_EQ(marian["pruned_heads"]["cross.L1"], json::array({0}));
  EXPECT_EQ(marian["auto_map"]["AutoModelForSeq2SeqLM"], "modeling_headwise.MarianMTModel");
  const json t5 = config_of("t5", {"dec.L1.H0"});
  EXPECT_EQ(t5["auto_map"]["AutoModelForSeq2SeqLM"],
            "modeling_headwise.T5ForConditionalGeneration");
}

TEST(Prune, WithoutHeadsToDropTheFolderIsACopy) {
  const TemporaryFolder temporary;
  prune_to(golden_model("bert"), {}, temporary.path() / "out");
  EXPECT_FALSE(fs::exists(temporary.path() / "out" / "modeling_headwise.py"));
  EXPECT_EQ(contents_of(temporary.path() / "out" / "model.safetensors"),
            contents_of(golden_model("bert") / "model.safetensors"));
}

TEST(Prune, RefusesWhatIsNotThereAndWhatIs) {
  const TemporaryFolder temporary;
  const auto refused = [&](const std::vector<std::string>& drop, const fs::path& out) {
    return error_of([&] { prune_to(golden_model("bert"), drop, out); }).what;
  };
  EXPECT_THAT(refused({"L0.H99"}, temporary.path() / "out"), HasSubstr("no such head"));
  EXPECT_THAT(refused({"L99"}, temporary.path() / "out"), HasSubstr("no such layer"));
  EXPECT_TRUE(temporary.names().empty());
  temporary.write("there/file", "mine");
  EXPECT_THAT(refused({"L0.H1"}, temporary.path() / "there"), HasSubstr("there already"));
  EXPECT_THAT(refused({"L0.H1"}, temporary.path() / "there" / "file"), HasSubstr("there already"));
  EXPECT_EQ(contents_of(temporary.path() / "there" / "file"), "mine");
  fs::create_directory(temporary.path() / "empty");
  prune_to(golden_model("bert"), {"L0.H1"}, temporary.path() / "empty");
  EXPECT_TRUE(fs::exists(temporary.path() / "empty" / "config.json"));
  fs::create_directory(temporary.path() / "linked");
  fs::create_directory_symlink("linked", temporary.path() / "link");
  prune_to(golden_model("bert"), {"L0.H1"}, temporary.path() / "link");
  EXPECT_TRUE(fs::exists(temporary.path() / "linked" / "config.json"));
  EXPECT_THAT(error_of([] { prune_form("small"); }).expected, HasSubstr("masked, compact"));
  EXPECT_THAT(error_of([] { compensation("all"); }).expected, HasSubstr("least_squares"));
}

TEST(Prune, GivesAModelThatCanBeSaved) {
  const TemporaryFolder temporary;
  const Model model = load(golden_model("bert"));
  const Texts texts(model.config());
  const fs::path out = temporary.path() / "out";
  fs::path made;
  {
    const PrunedModel pruned = prune(model, std::vector<std::string>{"L0.H1"});
    made = pruned.folder();
    EXPECT_EQ(pruned.heads(), model.heads() - 1);
    EXPECT_EQ(pruned.report().removed, (std::vector<std::string>{"L0.H1"}));
    EXPECT_EQ(pruned.name(), "bert");
    pruned.save(out);
    EXPECT_LE(difference(hidden(pruned, texts), hidden(load(out), texts)), 0);
    EXPECT_EQ(load(out).hash(), pruned.hash());
    EXPECT_TRUE(fs::exists(out / "README.md"));
    EXPECT_THROW(pruned.save(out), Error) << "it is there already";
    EXPECT_THROW(model.save(golden_model("bert") / "inside"), Error);
  }
  EXPECT_FALSE(fs::exists(made)) << "the temporary folder is gone with the model";
  EXPECT_EQ(temporary.names(), std::set<std::string>{"out"});
}

TEST(Prune, InRoundsRemovesAllHeads) {
  const Model model = load(golden_model("gpt2"));
  const Texts texts(model.config());
  const EvaluationSet set = unlabelled(texts.source);
  PruneOptions options;
  options.evaluation = &set;
  options.recover = Recovery{.set = set, .training = {.epochs = 1}, .rounds = 2};
  std::set<std::string> steps;
  options.progress = [&](std::string_view step, int64_t, int64_t) { steps.emplace(step); };
  const PrunedModel pruned = prune(model, std::vector<std::string>{"L0.H1", "L1.H0"}, options);
  EXPECT_EQ(pruned.heads(), model.heads() - 2);
  EXPECT_TRUE(pruned.report().recovered);
  EXPECT_FALSE(pruned.report().cut) << "there is no one loss before the training";
  EXPECT_EQ(pruned.report().before.loss->value, 0);
  EXPECT_GT(pruned.report().after.loss->value, 0);
  EXPECT_TRUE(steps.contains("steps"));
  EXPECT_TRUE(steps.contains("proof"));
  options.form = PruneForm::masked;
  EXPECT_THAT(
      error_of([&] { (void)prune(model, std::vector<std::string>{"L0.H1"}, options); }).what,
      HasSubstr("masked"));
}

TEST(Prune, FollowsAPlanOfTheModel) {
  const Model model = load(golden_model("bert"));
  const Plan list{.drop = {"L1"}, .order = "ablation"};
  const PrunedModel pruned = prune(model, list);
  EXPECT_EQ(pruned.report().order, "ablation");
  EXPECT_EQ(std::ssize(pruned.report().removed), std::ssize(model.attentions()[1].heads));
  const Plan other{.keep = {"L7.H0"}, .drop = {"L0.H1"}};
  EXPECT_THAT(error_of([&] { (void)prune(model, other); }).what, HasSubstr("another model"));
}

TEST(Prune, AsksForAMapOfClasses) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path() / "bert";
  fs::copy(golden_model("bert"), folder);
  const auto config_with = [&](const json& map) {
    json config = json::parse(contents_of(golden_model("bert") / "config.json"));
    config["auto_map"] = map;
    temporary.write("bert/config.json", config.dump());
  };
  config_with(json::array());
  EXPECT_THAT(error_of([&] { prune_to(folder, {"L0.H1"}, temporary.path() / "out"); }).where,
              HasSubstr("auto_map"));
  config_with(nullptr);
  prune_to(folder, {"L0.H1"}, temporary.path() / "out");
  EXPECT_TRUE(
      json::parse(contents_of(temporary.path() / "out" / "config.json"))["auto_map"].contains(
          "AutoModel"));
}

TEST(Prune, MediansOfTimesHaveIntervals) {
  EXPECT_EQ(interval_of_median({2}), (ConfidenceInterval{2, 2}));
  EXPECT_EQ(interval_of_median({3, 1, 2}), (ConfidenceInterval{1, 3}));
  EXPECT_EQ(interval_of_median({6, 5, 4, 3, 2, 1}), (ConfidenceInterval{1, 6}));
  std::vector<double> seconds(20);
  std::iota(seconds.begin(), seconds.end(), 1.);
  EXPECT_EQ(interval_of_median(seconds), (ConfidenceInterval{6, 15}));  // of tables: sign test
}

TEST(Prune, AModelIsAsFastAsItself) {
  const Model model = load(golden_model("bert"));
  const std::vector<SpeedComparison> speed = compare_speed(model, model, {.tokens = 1000});
  ASSERT_EQ(speed.size(), 2u);
  EXPECT_EQ(speed[0].texts, 1);
  EXPECT_EQ(speed[1].texts, 8);
  for (const SpeedComparison& at : speed) {
    EXPECT_EQ(at.tokens, model.config().max_positions) << "no longer than the model takes";
    EXPECT_GT(at.before, 0);
    EXPECT_GT(at.after, 0);
    for (const auto& [median, interval] :
         {std::pair(at.before, at.before_interval), std::pair(at.after, at.after_interval)}) {
      EXPECT_LE(interval.low, median);
      EXPECT_GE(interval.high, median);
    }
  }
  const Texts texts(model.config());
  EXPECT_LE(infidelity(model, model, texts.source), 1e-12);
}

}  // namespace
}  // namespace headwise
