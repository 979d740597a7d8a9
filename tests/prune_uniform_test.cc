// Uniform pruned models: stock architectures that hold them, and what they cannot hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "headwise/model/summary.h"
#include "io/io_testing.h"
#include "prune_testing.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

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
    const Model model = load(golden_model(name));
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
  const Model model = load(golden_model("llama"));
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
  EXPECT_EQ(load(out).attentions()[0].kv_heads, model.attentions()[0].kv_heads - 1);
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
  EXPECT_EQ(config["num_heads"], load(golden_model("t5")).attentions()[0].heads.size() - 1);
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

}  // namespace
}  // namespace headwise
