// Pruned models: compact equals masked equals gates of 0, in every architecture; what is in their
// folders; what cannot be pruned so.
#include "headwise/prune/prune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/random.h"
#include "headwise/io/tensor_file.h"
#include "headwise/model/model.h"
#include "headwise/model/summary.h"
#include "io/io_testing.h"
#include "prune/proof.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

/// The largest difference that float32 may make, relative to the largest value.
constexpr double kTolerance = 2e-5;

fs::path golden_model(const std::string& name) { return golden_folder() / "models" / name; }

std::vector<std::string> all_models() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_folder() / "models")) {
    if (fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

TokenBatch texts_for(const ModelConfig& config, int64_t vocabulary, uint64_t seed) {
  Random random(seed);
  TokenBatch batch;
  for (const int64_t tokens : {7, 12, 1, 4}) {
    std::vector<int32_t> ids;
    while (std::ssize(ids) < tokens) {
      const auto id = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary)));
      if (id != config.pad) ids.push_back(id);
    }
    batch.add(ids);
  }
  return batch;
}

struct Texts {
  explicit Texts(const ModelConfig& config) : source(texts_for(config, config.vocabulary, 1)) {
    if (config.encoder_decoder()) target = texts_for(config, config.decoder_vocabulary, 2);
  }
  TokenBatch source{}, target{};
};

Activations hidden(const Model& model, const Texts& texts, const std::vector<float>& gates = {},
                   ForwardObserver* observer = nullptr) {
  ForwardOptions options{.observer = observer};
  if (!gates.empty()) options.gates = {gates.data(), {1, std::ssize(gates)}};
  return texts.target.texts() > 0 ? model.hidden(texts.source, texts.target, options)
                                  : model.hidden(texts.source, options);
}

double difference(const Activations& a, const Activations& b) {
  double largest = 0, error = 0;
  for (int64_t i = 0; i < a.rows.extent(0) * a.rows.extent(1); ++i) {
    largest = std::max<double>(largest, std::abs(a.rows.data()[i]));
    error = std::max<double>(error, std::abs(a.rows.data()[i] - b.rows.data()[i]));
  }
  return error / largest;
}

std::vector<float> gates_without(const Model& model, const std::vector<std::string>& drop) {
  std::vector<float> gates(model.heads(), 1);
  for (const std::string& name : drop) {
    for (const HeadIndex head : model.find_heads(name)) {
      gates[model.attentions()[head.site].first + head.index] = 0;
    }
  }
  return gates;
}

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

PruneProof prune_to(const fs::path& folder, const std::vector<std::string>& drop,
                    const fs::path& out, const PruneOptions& options = {}) {
  return prune(Model::load(folder), folder, drop, out, options);
}

class PrunedModels : public testing::TestWithParam<std::string> {};

TEST_P(PrunedModels, CompactEqualsMaskedEqualsGates) {
  const TemporaryFolder temporary;
  const fs::path folder = golden_model(GetParam()), compact = temporary.path() / "compact",
                 masked = temporary.path() / "masked";
  const Model model = Model::load(folder);
  const std::vector<std::string> drop = every_third(model, 1);
  const Texts texts(model.config());
  const Activations gated = hidden(model, texts, gates_without(model, drop));
  const PruneProof proof = prune_to(folder, drop, compact);
  EXPECT_LE(proof.max_difference, kTolerance);
  EXPECT_TRUE(proof.random_ids);
  prune_to(folder, drop, masked, {.form = PruneForm::masked});
  const Model small = Model::load(compact);
  EXPECT_LE(difference(gated, hidden(small, texts)), kTolerance);
  EXPECT_EQ(small.heads() + std::ssize(drop), model.heads());
  if (!drop.empty()) EXPECT_LT(summarize(compact).parameters, summarize(folder).parameters);
  EXPECT_EQ(summarize(masked).parameters, summarize(folder).parameters);
  // Gates of grouped and of routed heads let the kernel put other rows together.
  const bool alone = std::ranges::all_of(model.attentions(), [&](const AttentionSite& site) {
    return site.kv_heads == std::ssize(site.heads) && !GetParam().ends_with("_routed") &&
           !GetParam().ends_with("_mixed");
  });
  EXPECT_LE(difference(gated, hidden(Model::load(masked), texts)), alone ? 0 : kTolerance);
}

TEST_P(PrunedModels, CanBePrunedAgain) {
  const TemporaryFolder temporary;
  const Model model = Model::load(golden_model(GetParam()));
  const Texts texts(model.config());
  std::vector<std::string> gone;
  fs::path last = golden_model(GetParam());
  for (const int64_t round : {1, 2, 0}) {  // the last leaves no head at all
    const Model now = Model::load(last);
    const std::vector<std::string> drop = every_third(now, round);
    gone.insert(gone.end(), drop.begin(), drop.end());
    const fs::path out = temporary.path() / std::to_string(round);
    // By masked ones, too.
    prune_to(last, drop, out, {.form = round == 2 ? PruneForm::masked : PruneForm::compact});
    last = out;
    EXPECT_LE(difference(hidden(model, texts, gates_without(model, gone)),
                         hidden(Model::load(last), texts)),
              kTolerance)
        << "round " << round;
  }
}

/// A hundredth of a head is more than rounding.
TEST_P(PrunedModels, TheProofCanFail) {
  const TemporaryFolder temporary;
  const fs::path folder = golden_model(GetParam());
  const Model model = Model::load(folder);
  std::vector<std::string> drop = every_third(model, 1);
  if (drop.empty()) drop = every_third(model, 0);  // those were pruned before
  prune_to(folder, drop, temporary.path() / "compact");
  prune_to(folder, drop, temporary.path() / "masked", {.form = PruneForm::masked});
  const Model compact = Model::load(temporary.path() / "compact"),
              masked = Model::load(temporary.path() / "masked");
  const Texts texts(model.config());
  std::vector<float> gates = gates_without(model, drop);
  const auto proof = [&] {
    return compare_forms(compact, masked, model, gates, texts.source, texts.target);
  };
  EXPECT_NO_THROW(require_same(proof(), model, "out"));
  std::ranges::replace(gates, 0.f, 0.01f);
  EXPECT_THAT(error_of([&] { require_same(proof(), model, "out"); }).what, HasSubstr("not kept"));
}

INSTANTIATE_TEST_SUITE_P(Models, PrunedModels, testing::ValuesIn(all_models()),
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
        EXPECT_TRUE(std::ranges::equal(left->bytes, tensor.bytes)) << tensor.name;
      } else {
        // What is left begins with the first head, in the first row or column.
        EXPECT_TRUE(std::ranges::equal(left->bytes.first(8), tensor.bytes.first(8)));
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
    shards[i % 2].push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
    index["weight_map"][tensor.name] = i % 2 == 0 ? "a.safetensors" : "b.safetensors";
  }
  fs::create_directories(folder);
  write_tensors(folder / "a.safetensors", shards[0], {{"format", "pt"}});
  write_tensors(folder / "b.safetensors", shards[1], {{"format", "pt"}});
  temporary.write("model/model.safetensors.index.json", index.dump());
  temporary.write("model/config.json", contents_of(golden_model("bert") / "config.json"));
  temporary.write("model/vocab.txt", "words");
  temporary.write("model/2_Dense/pytorch_model.bin", "kept");
  temporary.write("model/pytorch_model.bin", "the same weights, not pruned");
  prune_to(folder, {"L0.H0", "L1"}, out);
  EXPECT_EQ(contents_of(out / "vocab.txt"), "words");
  EXPECT_EQ(contents_of(out / "2_Dense" / "pytorch_model.bin"), "kept");
  EXPECT_FALSE(fs::exists(out / "pytorch_model.bin"));
  EXPECT_TRUE(fs::exists(out / "modeling_headwise.py"));
  const json written = json::parse(contents_of(out / "model.safetensors.index.json"));
  EXPECT_EQ(written["weight_map"], index["weight_map"]);
  int64_t bytes = 0;
  for (const TensorInfo& tensor : TensorFiles::open(out).tensors()) {
    bytes += std::ssize(tensor.bytes);
  }
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
  EXPECT_EQ(marian["pruned_heads"]["cross.L1"], json({0}));
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

/// One head of each group of each layer, another one in each.
std::vector<std::string> one_per_group(const Model& model) {
  std::vector<std::string> drop;
  for (const AttentionSite& site : model.attentions()) {
    const int64_t group = std::ssize(site.heads) / site.kv_heads;
    for (int64_t kv = 0; kv < site.kv_heads; ++kv) {
      drop.push_back(site.head_name(kv * group + (site.layer + kv) % group));
    }
  }
  return drop;
}

TEST(PruneUniform, LoadsAsAStockArchitecture) {
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "smollm3"}) {
    const TemporaryFolder temporary;
    const fs::path out = temporary.path() / "out";
    const Model model = Model::load(golden_model(name));
    const std::vector<std::string> drop = one_per_group(model);
    EXPECT_LE(prune_to(golden_model(name), drop, out, {.form = PruneForm::uniform}).max_difference,
              kTolerance);
    const json config = json::parse(contents_of(out / "config.json"));
    const AttentionSite& site = model.attentions()[0];
    EXPECT_EQ(config["num_attention_heads"], std::ssize(site.heads) - site.kv_heads);
    EXPECT_EQ(config["num_key_value_heads"], site.kv_heads);
    EXPECT_EQ(config["head_dim"], site.head_dim);
    EXPECT_FALSE(config.contains("pruned_heads"));
    EXPECT_FALSE(config.contains("auto_map"));
    EXPECT_FALSE(fs::exists(out / "modeling_headwise.py"));
    const bool llama = std::string(name) == "llama";
    EXPECT_EQ(config["model_type"], llama ? "mistral" : name);
    if (llama) {
      EXPECT_TRUE(config.contains("sliding_window") && config["sliding_window"].is_null());
      EXPECT_EQ(config["architectures"][0], "MistralForCausalLM");
    }
  }
}

TEST(PruneUniform, TakesWholeGroups) {
  const TemporaryFolder temporary;
  const Model model = Model::load(golden_model("llama"));
  std::vector<std::string> drop;
  for (const AttentionSite& site : model.attentions()) {
    const int64_t group = std::ssize(site.heads) / site.kv_heads;
    for (int64_t h = 0; h < group; ++h) {
      drop.push_back(site.head_name(site.layer % site.kv_heads * group + h));
    }
  }
  const fs::path out = temporary.path() / "out", compact = temporary.path() / "compact";
  EXPECT_LE(prune_to(golden_model("llama"), drop, out, {.form = PruneForm::uniform}).max_difference,
            kTolerance);
  EXPECT_EQ(Model::load(out).attentions()[0].kv_heads, model.attentions()[0].kv_heads - 1);
  // What is compact already can become uniform.
  prune_to(golden_model("llama"), drop, compact);
  prune_to(compact, {}, temporary.path() / "again", {.form = PruneForm::uniform});
  EXPECT_EQ(contents_of(out / "config.json"),
            contents_of(temporary.path() / "again" / "config.json"));
}

TEST(PruneUniform, OfT5NeedsTheSameHeadsInEachLayer) {
  const TemporaryFolder temporary;
  const fs::path out = temporary.path() / "out";
  const PruneOptions uniform{.form = PruneForm::uniform};
  const std::vector<std::string> same = {"enc.L0.H1", "enc.L1.H1",   "dec.L0.H2",
                                         "dec.L1.H2", "cross.L0.H0", "cross.L1.H3"};
  EXPECT_LE(prune_to(golden_model("t5"), same, out, uniform).max_difference, kTolerance);
  const json config = json::parse(contents_of(out / "config.json"));
  EXPECT_EQ(config["num_heads"], Model::load(golden_model("t5")).attentions()[0].heads.size() - 1);
  const ErrorDetail error = error_of([&] {
    prune_to(golden_model("t5"),
             {"enc.L0.H1", "enc.L1.H2", "dec.L0.H2", "dec.L1.H2", "cross.L0.H0", "cross.L1.H3"},
             temporary.path() / "other", uniform);
  });
  EXPECT_THAT(error.got, HasSubstr("other heads in enc.L1 than in enc.L0"));
  EXPECT_THAT(error.hint, HasSubstr("compact"));
}

TEST(PruneUniform, RefusesWhatItCannotHold) {
  const TemporaryFolder temporary;
  const auto refused = [&](const char* model, const std::vector<std::string>& drop) {
    const ErrorDetail error = error_of([&] {
      prune_to(golden_model(model), drop, temporary.path() / "out", {.form = PruneForm::uniform});
    });
    EXPECT_THAT(error.hint, HasSubstr("compact"));
    EXPECT_TRUE(temporary.names().empty()) << "nothing is left behind";
    return error.got;
  };
  for (const char* model : {"bert", "gpt2", "gpt_neox", "marian", "mpnet", "llama_fixed"}) {
    EXPECT_THAT(refused(model, {}), HasSubstr("no width of their own"));
  }
  EXPECT_THAT(refused("mistral", {"L0.H0"}), HasSubstr("groups of unequal size in L0"));
  EXPECT_THAT(refused("mistral", {"L1.H0,L1.H1"}),
              HasSubstr("4 heads (2 of keys and values) in L0"));
  EXPECT_THAT(refused("llama", {"all"}), HasSubstr("no heads"));
  EXPECT_THAT(refused("llama_biases", {}), HasSubstr("biases"));
}

/// The rows that one attention adds to the residual stream.
class Projected : public ForwardObserver {
 public:
  explicit Projected(std::string name) : name_(std::move(name)) {}
  bool wants_projected() const override { return true; }
  void projected(const AttentionSite& site, View<const float, 2> rows) override {
    if (site.name != name_) return;
    width = rows.extent(1);
    values.assign(rows.data(), rows.data() + rows.extent(0) * width);
  }
  std::vector<float> mean() const {
    std::vector<float> mean(width);
    const auto rows = static_cast<float>(std::ssize(values) / width);
    for (size_t i = 0; i < values.size(); ++i) mean[i % width] += values[i] / rows;
    return mean;
  }
  std::vector<float> values{};
  int64_t width = 0;

 private:
  std::string name_;
};

double squared_error(const Projected& a, const Projected& b) {
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double d = double{a.values[i]} - double{b.values[i]};
    sum += d * d;
  }
  return sum;
}

TEST(PruneCompensate, SaysInTheMeanWhatWasSaid) {
  for (const char* name : {"bert", "gpt2", "gpt_neox", "marian"}) {
    const TemporaryFolder temporary;
    const Model model = Model::load(golden_model(name));
    const Texts texts(model.config());
    const std::string site = model.attentions()[0].name;
    double last = INFINITY;
    Projected whole(site);
    hidden(model, texts, {}, &whole);
    for (const Compensation how :
         {Compensation::none, Compensation::mean, Compensation::least_squares}) {
      const fs::path out = temporary.path() / std::string(to_string(how));
      prune_to(golden_model(name), {site + ".H0", site + ".H2"}, out,
               {.compensate = how, .ridge = 1e-9, .source = texts.source, .target = texts.target});
      Projected left(site);
      hidden(Model::load(out), texts, {}, &left);
      const double error = squared_error(whole, left);
      EXPECT_LT(error, last) << name << " " << to_string(how);
      last = error;
      if (how == Compensation::none) continue;
      for (size_t i = 0; i < left.mean().size(); ++i) {
        EXPECT_NEAR(left.mean()[i], whole.mean()[i], 1e-5) << to_string(how);
      }
    }
  }
}

TEST(PruneCompensate, LeastSquaresNeedsNoBias) {
  const TemporaryFolder temporary;
  const Model model = Model::load(golden_model("llama"));
  const Texts texts(model.config());
  Projected whole("L0"), none("L0"), solved("L0");
  hidden(model, texts, {}, &whole);
  for (const auto& [how, seen] :
       {std::pair{Compensation::none, &none}, std::pair{Compensation::least_squares, &solved}}) {
    const fs::path out = temporary.path() / std::string(to_string(how));
    prune_to(golden_model("llama"), {"L0.H1"}, out, {.compensate = how, .source = texts.source});
    hidden(Model::load(out), texts, {}, seen);
  }
  EXPECT_LT(squared_error(whole, solved), squared_error(whole, none));
  const auto refused = [&](const PruneOptions& options) {
    return error_of(
        [&] { prune_to(golden_model("llama"), {"L0.H1"}, temporary.path() / "other", options); });
  };
  EXPECT_THAT(refused({.compensate = Compensation::mean, .source = texts.source}).hint,
              HasSubstr("least_squares"));
  EXPECT_THAT(refused({.compensate = Compensation::least_squares}).what, HasSubstr("texts"));
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
  EXPECT_THAT(error_of([] { prune_form("small"); }).expected, HasSubstr("masked, compact"));
  EXPECT_THAT(error_of([] { compensation("all"); }).expected, HasSubstr("least_squares"));
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

TEST(Prune, AModelIsAsFastAsItself) {
  const Model model = Model::load(golden_model("bert"));
  const std::vector<SpeedComparison> speed = compare_speed(model, model, 1000);
  ASSERT_EQ(speed.size(), 2u);
  EXPECT_EQ(speed[0].texts, 1);
  EXPECT_EQ(speed[1].texts, 8);
  for (const SpeedComparison& at : speed) {
    EXPECT_EQ(at.tokens, model.config().max_positions) << "no longer than the model takes";
    EXPECT_GT(at.before, 0);
    EXPECT_GT(at.after, 0);
  }
  const Texts texts(model.config());
  EXPECT_LE(infidelity(model, model, golden_model("bert"), texts.source), 1e-12);
}

}  // namespace
}  // namespace headwise
