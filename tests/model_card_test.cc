// Model cards of pruned folders: what they say, what they keep, and what cannot break them.
#include "headwise/prune/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/io_testing.h"
#include "prune/card_metadata.h"
#include "prune_testing.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ModelCard : public testing::Test {
 protected:
  /// A copy of a golden model, with a card if there is one.
  fs::path model(const std::string& name, const std::string& card = "") {
    const fs::path folder = temporary_.path() / name;
    fs::copy(golden_model(name), folder);
    if (!card.empty()) temporary_.write(name + "/README.md", card);
    return folder;
  }

  /// The card of a model without these heads.
  std::string card_of(const fs::path& folder, const std::vector<std::string>& drop,
                      const std::string& out, const PruneOptions& options = {}) {
    prune_to(folder, drop, temporary_.path() / out, options);
    return contents_of(temporary_.path() / out / "README.md");
  }

  TemporaryFolder temporary_;
};

constexpr const char* kOriginal = R"(---
license: apache-2.0
base_model: org/base
pipeline_tag: fill-mask
tags:
- exbert
model-index:
- name: x
---
# The original
`AutoModel.from_pretrained("org/original")`
)";

TEST_F(ModelCard, SaysWhatWasRemovedAndHowToLoad) {
  const fs::path bert = model("bert", kOriginal);
  const std::string card = card_of(bert, {"L0.H1", "L0.H3", "L1"}, "out", {.order = "ablation"});
  EXPECT_THAT(
      card,
      AllOf(HasSubstr("| L0 | 1, 3 | "), HasSubstr("| L1 | 0, 1"),
            HasSubstr("order `ablation`: the loss rises least"), HasSubstr("No loss was measured"),
            HasSubstr("Equality check: on 4 texts"), HasSubstr("[ORIGINAL.md](ORIGINAL.md)")));
  EXPECT_THAT(card, HasSubstr("AutoModelForMaskedLM.from_pretrained(\"path/to/this/folder\", "
                              "trust_remote_code=True)"));
  EXPECT_THAT(card, Not(HasSubstr("org/original")));
  EXPECT_THAT(card, Not(HasSubstr(temporary_.path().string())));
  EXPECT_EQ(contents_of(temporary_.path() / "out" / "ORIGINAL.md"), kOriginal);
  const auto fields = read_card_metadata(card);
  EXPECT_THAT(fields.at("license").values, ElementsAre("apache-2.0"));
  EXPECT_THAT(fields.at("base_model").values, ElementsAre("org/base"));
  EXPECT_THAT(fields.at("pipeline_tag").values, ElementsAre("fill-mask"));
  EXPECT_THAT(fields.at("library_name").values, ElementsAre("transformers"));
  EXPECT_THAT(fields.at("tags").values, ElementsAre("exbert", "headwise", "pruned"));
  EXPECT_FALSE(fields.contains("model-index"));
}

TEST_F(ModelCard, AsksForTrustOnlyWhereTheFolderHasCode) {
  const std::string masked =
      card_of(model("bert"), {"L0.H1"}, "masked", {.form = PruneForm::masked});
  EXPECT_THAT(masked, AllOf(Not(HasSubstr("trust_remote_code")), Not(HasSubstr("ORIGINAL")),
                            HasSubstr("AutoModelForMaskedLM")));
  const Model llama = load(golden_model("llama"));
  std::vector<std::string> drop;  // the first key/value head of every layer with its heads
  for (const AttentionSite& site : llama.attentions()) {
    const int64_t group = std::ssize(site.heads) / site.kv_heads;
    for (int64_t i = 0; i < group; ++i) drop.push_back(site.head_name(i));
  }
  const std::string uniform =
      card_of(golden_model("llama"), drop, "uniform", {.form = PruneForm::uniform});
  EXPECT_THAT(uniform,
              AllOf(Not(HasSubstr("trust_remote_code")), HasSubstr("AutoModelForCausalLM")));
  const std::string own = card_of(golden_model("bert_fixed"), {"L0.H1"}, "own");
  EXPECT_THAT(own, AllOf(Not(HasSubstr("from_pretrained")), HasSubstr("headwise inspect")));
}

TEST_F(ModelCard, KeepsTheFirstOriginal) {
  const fs::path bert = model("bert", kOriginal), once = temporary_.path() / "once";
  card_of(bert, {"L0.H1", "L1.H0"}, "once");
  const std::string card = card_of(once, {"L0.H0"}, "twice");
  EXPECT_EQ(contents_of(temporary_.path() / "twice" / "ORIGINAL.md"), kOriginal);
  EXPECT_THAT(card, AllOf(HasSubstr("| L0 | 0 |"), HasSubstr("2 other heads were gone before")));
  EXPECT_THAT(read_card_metadata(card).at("license").values, ElementsAre("apache-2.0"));
  EXPECT_THAT(read_card_metadata(card).at("tags").values,
              ElementsAre("exbert", "headwise", "pruned"));
  // Without a card in the first place there is none to keep.
  card_of(model("gpt2"), {"L0.H1"}, "first");
  card_of(temporary_.path() / "first", {"L0.H0"}, "second");
  EXPECT_FALSE(fs::exists(temporary_.path() / "second" / "ORIGINAL.md"));
}

TEST_F(ModelCard, NamesAModelOfTheCache) {
  const fs::path snapshot = temporary_.path() / "hub/models--org--tiny-bert/snapshots/0a1b";
  fs::create_directories(snapshot.parent_path());
  fs::copy(golden_model("bert"), snapshot);
  const std::string card = card_of(snapshot, {"L0.H1"}, "out");
  EXPECT_THAT(read_card_metadata(card).at("base_model").values, ElementsAre("org/tiny-bert"));
  EXPECT_THAT(card, HasSubstr("This is `org/tiny-bert` without 1 of its"));
  // It stays the base of what is pruned further.
  const std::string again = card_of(temporary_.path() / "out", {"L0.H0"}, "again");
  EXPECT_THAT(read_card_metadata(again).at("base_model").values, ElementsAre("org/tiny-bert"));
}

TEST_F(ModelCard, IsNotBrokenByTheOriginal) {
  const std::string hostile =
      "---\nlicense: \"mit\\n---\\nevil: true\"\npipeline_tag: no\n"
      "tags: [\"a\\\"b\", \"---\", '# x']\nlibrary_name: !!python/object:os.system [ls]\n---\n";
  const std::string card = card_of(model("bert", hostile), {"L0.H1"}, "out");
  const auto fields = read_card_metadata(card);
  EXPECT_FALSE(fields.contains("license"));
  EXPECT_FALSE(fields.contains("evil"));
  EXPECT_THAT(fields.at("pipeline_tag").values, ElementsAre("no"));
  EXPECT_THAT(card, HasSubstr("pipeline_tag: \"no\"\n"));
  EXPECT_THAT(fields.at("tags").values, ElementsAre("a\"b", "---", "# x", "headwise", "pruned"));
  EXPECT_THAT(fields.at("library_name").values, ElementsAre("transformers"));
}

TEST_F(ModelCard, IsWrittenAgainWithMoreMeasured) {
  PruneReport report = prune(load(golden_model("bert")), std::vector<std::string>{"L0.H1"},
                             {.out = temporary_.path() / "out"})
                           .report();
  report.before.loss = LossEvidence{.task = "mlm", .value = 2, .examples = 1234};
  report.after.loss = LossEvidence{.task = "mlm", .value = 2.5, .examples = 1234};
  report.speed = {{.texts = 8,
                   .tokens = 128,
                   .before = 0.2,
                   .after = 0.15,
                   .before_interval = {0.19, 0.21},
                   .after_interval = {0.14, 0.16}},
                  {.texts = 1,
                   .tokens = 128,
                   .before = 0.02,
                   .after = 0.019,
                   .before_interval = {0.018, 0.021},
                   .after_interval = {0.017, 0.0195}}};
  write_model_card(temporary_.path() / "out", report);
  EXPECT_THAT(contents_of(temporary_.path() / "out" / "README.md"),
              AllOf(HasSubstr("| mlm loss | 2.0000 | 2.5000 | 1.250 |"),
                    HasSubstr("| ms for 8 x 128 tokens | 200.00 | 150.00 | 0.750 |"),
                    HasSubstr("| ms for 1 x 128 tokens | 20.00 | 19.00 | equal |"),
                    HasSubstr("over 1,234 examples")));
}

TEST_F(ModelCard, HasWhatIsMeasuredBeforeTheFolderIsThere) {
  const fs::path out = temporary_.path() / "out";
  PruneOptions options;
  options.measure = [&](const Model& pruned, PruneReport& report) {
    EXPECT_FALSE(fs::exists(out));
    EXPECT_TRUE(fs::exists(pruned.folder() / "config.json"));
    EXPECT_EQ(pruned.heads(), report.after.heads);
    report.recovered = true;
  };
  EXPECT_THAT(card_of(golden_model("bert"), {"L0.H1"}, "out", options),
              HasSubstr("trained further after"));
  options.measure = [](const Model&, PruneReport&) { throw 1; };
  EXPECT_THROW(card_of(golden_model("bert"), {"L0.H1"}, "never", options), int);
  EXPECT_THAT(temporary_.names(), ElementsAre("out"));
}

}  // namespace
}  // namespace headwise
