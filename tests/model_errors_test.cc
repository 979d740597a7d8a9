// Checkpoints and inputs that a model must refuse by name, and those that it must take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "headwise/io/tensor_file.h"
#include "headwise/model/generate.h"
#include "headwise/model/model.h"
#include "headwise/model/score.h"
#include "headwise/model/sentence_embedding.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A golden checkpoint in memory, to be broken and written to a folder of its own.
class Checkpoint {
 public:
  struct Tensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
  };

  explicit Checkpoint(const std::string& name) {
    const auto folder = golden_folder() / "models" / name;
    config = json::parse(contents_of(folder / "config.json"));
    const TensorFiles files = TensorFiles::open(folder);
    for (const TensorInfo& tensor : files.tensors()) {
      Tensor& copy = tensors[tensor.name];
      copy.shape = tensor.shape;
      copy.values.resize(tensor.size());
      files.read(tensor, copy.values);
    }
  }

  const std::filesystem::path& write() const {
    folder_.write("config.json", config.dump());
    std::vector<TensorToWrite> all;
    for (const auto& [name, tensor] : tensors) {
      all.push_back({.name = name,
                     .dtype = Dtype::kF32,
                     .shape = tensor.shape,
                     .bytes = std::as_bytes(std::span(tensor.values))});
    }
    write_tensors(folder_.path() / "model.safetensors", all, {});
    return folder_.path();
  }

  Model load(const LoadOptions& options = {}) const { return headwise::load(write(), options); }
  ErrorDetail refused() const {
    return error_of([&] { (void)load(); });
  }

  json config;
  std::map<std::string, Tensor> tensors;

 private:
  TemporaryFolder folder_;
};

Model golden(const std::string& name) { return load(golden_folder() / "models" / name); }

TokenBatch batch_of(std::initializer_list<std::vector<int32_t>> texts) {
  TokenBatch batch;
  for (const auto& text : texts) batch.add(text);
  return batch;
}

const std::string kQuery = "bert.encoder.layer.1.attention.self.query.weight";

TEST(ModelErrors, AMissingTensor) {
  for (const std::string& name : {kQuery, std::string("bert.embeddings.word_embeddings.weight"),
                                  std::string("bert.encoder.layer.2.output.LayerNorm.bias"),
                                  std::string("cls.predictions.transform.dense.weight"),
                                  std::string("cls.predictions.bias")}) {
    Checkpoint checkpoint("bert");
    ASSERT_EQ(checkpoint.tensors.erase(name), 1u) << name;
    const ErrorDetail error = checkpoint.refused();
    EXPECT_EQ(error.what, "a tensor is missing from the checkpoint");
    EXPECT_TRUE(name.ends_with(error.where)) << error.where;
    EXPECT_THAT(error.expected, HasSubstr("shape ["));
    EXPECT_THAT(error.hint, HasSubstr("the checkpoint has, for instance, "));
  }
}

TEST(ModelErrors, AnUnexpectedTensor) {
  Checkpoint checkpoint("bert");
  checkpoint.tensors["bert.encoder.layer.3.output.dense.weight"] = {{2}, {1, 2}};
  checkpoint.tensors["adapter.down"] = {{1}, {1}};
  const ErrorDetail error = checkpoint.refused();
  EXPECT_EQ(error.what, "the checkpoint has tensors that the architecture does not know");
  EXPECT_EQ(error.where, "adapter.down");
  EXPECT_THAT(error.got, HasSubstr("2 unexpected: adapter.down, bert.encoder.layer.3"));
  EXPECT_NO_THROW(checkpoint.load({.allow_unexpected = true}));
}

TEST(ModelErrors, NamesAndShapesAreCheckedBeforeAnythingIsRead) {
  Checkpoint checkpoint("bert");
  checkpoint.tensors["bert.embeddings.word_embeddings.weight"].values[3] = NAN;
  EXPECT_EQ(checkpoint.refused().what, "weights: a value is not finite");
  checkpoint.tensors["adapter.down"] = {{1}, {1}};
  EXPECT_EQ(checkpoint.refused().where, "adapter.down");
  checkpoint.tensors.erase("cls.predictions.bias");
  EXPECT_EQ(checkpoint.refused().where, "cls.predictions.bias");
}

TEST(ModelErrors, ATransposedTensor) {
  Checkpoint checkpoint("bert");
  std::ranges::reverse(checkpoint.tensors["bert.encoder.layer.0.output.dense.weight"].shape);
  const ErrorDetail error = checkpoint.refused();
  EXPECT_EQ(error.what, "a tensor does not have the shape that config.json gives it");
  EXPECT_EQ(error.where, "bert.encoder.layer.0.output.dense.weight");
  EXPECT_EQ(error.got, "[37, 32]");
  EXPECT_EQ(error.expected, "[32, 37]");
  EXPECT_EQ(error.hint, "it is transposed");
}

TEST(ModelErrors, VocabularyThatIsNotTheEmbeddingsRows) {
  Checkpoint checkpoint("bert");
  checkpoint.config["vocab_size"] = 71;
  const ErrorDetail error = checkpoint.refused();
  EXPECT_EQ(error.where, "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(error.got, "[70, 32]");
  EXPECT_EQ(error.expected, "[71, 32]");
}

TEST(ModelErrors, TiedWeightsThatDisagree) {
  for (const auto& [model, word, output] :
       {std::tuple{"bert", "bert.embeddings.word_embeddings.weight",
                   "cls.predictions.decoder.weight"},
        std::tuple{"gpt2", "transformer.wte.weight", "lm_head.weight"},
        std::tuple{"t5", "shared.weight", "lm_head.weight"},
        std::tuple{"t5", "shared.weight", "encoder.embed_tokens.weight"}}) {
    Checkpoint checkpoint(model);
    checkpoint.tensors[output] = checkpoint.tensors.at(word);
    EXPECT_NO_THROW(checkpoint.load()) << output;
    checkpoint.tensors[output].values[5] += 1;
    const ErrorDetail error = checkpoint.refused();
    EXPECT_EQ(error.what, "tensors that config.json ties together disagree");
    EXPECT_EQ(error.where, output);
    EXPECT_THAT(error.expected, HasSubstr(word));
    EXPECT_THAT(error.hint, HasSubstr("tie_word_embeddings"));
  }
}

TEST(ModelErrors, NanOrInfinityAmongTheWeights) {
  for (const std::string& name : {kQuery, std::string("bert.embeddings.position_embeddings.weight"),
                                  std::string("cls.predictions.bias")}) {
    for (const float bad : {NAN, INFINITY}) {
      Checkpoint checkpoint("bert");
      checkpoint.tensors[name].values[33] = bad;
      const ErrorDetail error = checkpoint.refused();
      EXPECT_THAT(error.where, HasSubstr(name));
      EXPECT_THAT(error.where, HasSubstr("index 33"));
      EXPECT_NO_THROW(checkpoint.load({.allow_nonfinite = true}));
    }
  }
}

TEST(ModelErrors, PrunedHeads) {
  Checkpoint checkpoint("bert");
  checkpoint.config["pruned_heads"] = {{"1", {4}}};
  EXPECT_THAT(checkpoint.refused().where, HasSubstr("config.json: pruned_heads.1"));
  checkpoint.config["pruned_heads"] = {{"1", {2, 2}}};
  EXPECT_EQ(checkpoint.refused().what, "a pruned head is named twice");
  // Said to be pruned, but still there.
  checkpoint.config["pruned_heads"] = {{"1", {2}}};
  const ErrorDetail error = checkpoint.refused();
  EXPECT_THAT(error.where, HasSubstr("bert.encoder.layer.1.attention"));
  EXPECT_THAT(error.got + error.expected, HasSubstr("24"));
}

/// The layer's attention then adds only its bias.
TEST(ModelErrors, AllHeadsOfALayerPruned) {
  Checkpoint checkpoint("gpt2");
  const Model whole = checkpoint.load();
  checkpoint.config["pruned_heads"] = {{"1", {0, 1, 2, 3}}};
  checkpoint.tensors["transformer.h.1.attn.c_attn.weight"] = {{32, 0}, {}};
  checkpoint.tensors["transformer.h.1.attn.c_attn.bias"] = {{0}, {}};
  checkpoint.tensors["transformer.h.1.attn.c_proj.weight"] = {{0, 32}, {}};
  const Model pruned = checkpoint.load();
  ASSERT_EQ(pruned.heads(), 8);
  const TokenBatch batch = batch_of({{5, 6, 7}, {8}});
  std::vector<float> gates(12, 1.f);
  std::fill_n(gates.begin() + 4, 4, 0.f);
  const Activations expected = whole.forward(batch, {.gates = {gates.data(), {1, 12}}});
  const Activations got = pruned.forward(batch);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t c = 0; c < 32; ++c) EXPECT_NEAR(got.rows(row, c), expected.rows(row, c), 1e-5);
  }
}

TEST(ModelErrors, FoldersOfOtherTasks) {
  Checkpoint checkpoint("bert");
  checkpoint.config["architectures"] = {"BertForSequenceClassification"};
  EXPECT_THAT(checkpoint.refused().where, HasSubstr("pooler.dense.weight"));
  checkpoint.config["architectures"] = {"BertModel"};
  EXPECT_THAT(checkpoint.refused().got, HasSubstr("cls.predictions"));
}

/// Sentence encoders are saved so: the config names the class that they were trained from.
TEST(ModelErrors, AMaskedLanguageModelWithoutItsOutput) {
  for (const char* name : {"bert", "roberta", "mpnet", "distilbert"}) {
    Checkpoint checkpoint(name);
    const Activations expected = checkpoint.load().forward(batch_of({{5, 6, 7}}));
    std::erase_if(checkpoint.tensors, [](const auto& tensor) {
      return tensor.first.starts_with("cls.") || tensor.first.starts_with("lm_head.") ||
             tensor.first.starts_with("vocab_");
    });
    const Model model = checkpoint.load();
    EXPECT_EQ(model.config().task, Task::hidden) << name;
    EXPECT_EQ(model.output_width(), 0);
    const Activations hidden = model.forward(batch_of({{5, 6, 7}}));
    for (int64_t c = 0; c < 32; ++c) EXPECT_EQ(hidden.rows(2, c), expected.rows(2, c)) << name;
    EXPECT_EQ(error_of([&] { (void)model.output(hidden.rows); }).what,
              "the model has no output layer");
  }
}

TEST(ModelErrors, T5WithoutAnOutputOfItsOwn) {
  Checkpoint checkpoint("t5");
  const TokenBatch source = batch_of({{5, 6, 7}}), target = batch_of({{0, 9}});
  const Model scaled = checkpoint.load();
  const Activations small = scaled.output(scaled.forward(source, target).rows);
  checkpoint.config["scale_decoder_outputs"] = false;
  const Model plain = checkpoint.load();
  const Activations large = plain.output(plain.forward(source, target).rows);
  for (int64_t v = 0; v < 65; ++v) {
    EXPECT_NEAR(small.rows(1, v) * std::sqrt(32.f), large.rows(1, v), 1e-4);
  }
}

TEST(ModelErrors, TokenIdsOutOfRange) {
  for (const int32_t id : {-1, 70, std::numeric_limits<int32_t>::max()}) {
    const ErrorDetail error = error_of([&] {
      (void)golden("bert").forward(batch_of({{5, 6}, {7, id}}));
    });
    EXPECT_EQ(error.what, "a token id is not in the vocabulary");
    EXPECT_EQ(error.got, std::to_string(id));
    EXPECT_EQ(error.expected, "0 to 69");
  }
  TokenBatch batch;
  batch.add(std::vector<int32_t>{5, 6}, std::vector<int32_t>{0, 2});
  const ErrorDetail error = error_of([&] { (void)golden("bert").forward(batch); });
  EXPECT_EQ(error.what, "a token type is not in the model");
  EXPECT_EQ(error.expected, "0 to 1");
}

TEST(ModelErrors, WordsThatTheTableDoesNotHave) {
  for (const char* name : {"bert", "bert_half"}) {
    const Model model = golden(name);
    const auto vocabulary = static_cast<int32_t>(model.config().vocabulary);
    for (const int32_t id : {-1, vocabulary}) {
      const std::vector<int32_t> ids = {0, id};
      const ErrorDetail error = error_of([&] { (void)model.word_embeddings(Side::encoder, ids); });
      EXPECT_EQ(error.what, "embedding: the table has no such row") << name;
      EXPECT_EQ(error.got, std::to_string(id)) << name;
    }
  }
}

TEST(ModelErrors, ATextLongerThanThePositions) {
  for (const auto& [name, most] :
       {std::pair{"bert", 19}, std::pair{"gpt2", 24}, std::pair{"llama", 32}}) {
    const Model model = golden(name);
    EXPECT_NO_THROW((void)model.forward(batch_of({std::vector<int32_t>(most, 5)}))) << name;
    const ErrorDetail error = error_of([&] {
      (void)model.forward(batch_of({{5}, std::vector<int32_t>(most + 1, 5)}));
    });
    EXPECT_EQ(error.what, "a text is longer than the model's positions");
    EXPECT_EQ(error.expected, "at most " + std::to_string(most));
    EXPECT_THAT(error.hint, HasSubstr("truncate"));
  }
  EXPECT_NO_THROW((void)golden("t5").forward(batch_of({std::vector<int32_t>(500, 5)})));
}

TEST(ModelErrors, EmptyBatchesAndTexts) {
  for (const char* name : {"bert", "gpt2", "llama", "mpnet"}) {
    const Model model = golden(name);
    EXPECT_EQ(model.forward({}).rows.extent(0), 0) << name;
    EXPECT_EQ(model.output(model.forward({}).rows).rows.extent(0), 0) << name;
    EXPECT_EQ(model.forward(batch_of({{}, {}})).rows.extent(0), 0) << name;
    const Activations with = model.forward(batch_of({{}, {5, 6}, {}, {7}}));
    const Activations without = model.forward(batch_of({{5, 6}, {7}}));
    ASSERT_EQ(with.rows.extent(0), 3) << name;
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t c = 0; c < 32; ++c) EXPECT_EQ(with.rows(row, c), without.rows(row, c)) << name;
    }
  }
  const Model t5 = golden("t5");
  const Activations hidden = t5.forward(batch_of({{}, {5}}), batch_of({{0, 7}, {}}));
  ASSERT_EQ(hidden.rows.extent(0), 2);
  for (int64_t c = 0; c < 32; ++c) EXPECT_TRUE(std::isfinite(hidden.rows(1, c)));
}

TEST(ModelErrors, OffsetsAndTypesThatDoNotFit) {
  const Model model = golden("bert");
  TokenBatch batch = batch_of({{5, 6}, {7}});
  batch.offsets = {0, 2, 4};
  EXPECT_THAT(error_of([&] { (void)model.forward(batch); }).what, HasSubstr("offsets of a batch"));
  batch.offsets = {0, 3, 2, 3};
  EXPECT_THAT(error_of([&] { (void)model.forward(batch); }).what, HasSubstr("offsets of a batch"));
  batch = batch_of({{5, 6}, {7}});
  batch.types = {0};
  EXPECT_THAT(error_of([&] { (void)model.forward(batch); }).what, HasSubstr("one type per token"));
}

TEST(ModelErrors, GatesOfAnotherShape) {
  const Model model = golden("bert");
  const TokenBatch batch = batch_of({{5, 6}, {7}, {8}});
  const std::vector<float> gates(100, 1.f);
  for (const auto& shape : {std::array<int64_t, 2>{1, 11}, {1, 13}, {2, 12}, {0, 12}, {4, 12}}) {
    const ErrorDetail error = error_of([&] {
      (void)model.forward(batch, {.gates = {gates.data(), {shape[0], shape[1]}}});
    });
    EXPECT_EQ(error.what, "the gates are not one per head");
    EXPECT_EQ(error.expected, "[1, 12] or [3, 12]");
  }
}

TEST(ModelErrors, EncoderDecodersNeedPairs) {
  const Model t5 = golden("t5"), bert = golden("bert");
  EXPECT_THAT(error_of([&] { (void)bert.forward(batch_of({{5}}), batch_of({{5}})); }).what,
              HasSubstr("no encoder and decoder"));
  EXPECT_THAT(error_of([&] {
                (void)t5.forward(batch_of({{5}}), batch_of({{5}, {6}}));
              }).what,
              HasSubstr("not as many"));
  EXPECT_THAT(error_of([&] { (void)bert.start(1, 4); }).what, HasSubstr("no decoder"));
  EXPECT_THAT(error_of([&] {
                (void)t5.start(3, 4, batch_of({{5}, {6}}));
              }).what,
              HasSubstr("do not divide among the sources"));
  EXPECT_THAT(error_of([&] { (void)t5.start(3, 4); }).what, HasSubstr("do not divide"));
}

TEST(ModelErrors, StepsThatDoNotFit) {
  const Model model = golden("gpt2");
  DecoderState state = model.start(2, 3);
  EXPECT_THAT(error_of([&] { (void)model.step(batch_of({{5}}), state); }).what,
              HasSubstr("not for every sequence"));
  (void)model.step(batch_of({{5, 6}, {7}}), state);
  EXPECT_EQ(state.length(0), 2);
  EXPECT_EQ(state.length(1), 1);
  EXPECT_THROW((void)model.step(batch_of({{5, 6}, {7}}), state), Error);  // beyond its capacity
  EXPECT_EQ(state.length(0), 2);
  EXPECT_NO_THROW((void)model.step(batch_of({{5}, {7}}), state));
  for (const std::vector<int64_t>& from : {std::vector<int64_t>{0, 2}, {-1, 0}, {0}}) {
    EXPECT_THROW(state.reorder(from), Error);
  }
  EXPECT_THROW((void)model.start(-1, 3), Error);
  EXPECT_THROW((void)model.start(1, -3), Error);
}

TEST(ModelErrors, HeadsThatAreNotThere) {
  const Model bert = golden("bert"), t5 = golden("t5");
  for (const char* list : {"L9", "L0.H9", "H1", "L0.", "", "L0.H0,", "enc.L0", "L0.H0 L1"}) {
    EXPECT_THROW((void)bert.find_heads(list), Error) << list;
  }
  EXPECT_THAT(error_of([&] { (void)t5.find_heads("L0.H1"); }).hint, HasSubstr("cross.L0"));
  const auto heads = bert.find_heads("L2.H1,L0");
  ASSERT_EQ(heads.size(), 5u);
  EXPECT_NE(std::ranges::find(heads, HeadIndex{2, 1}), heads.end());
  const auto cross = t5.find_heads("cross.L1.H3");
  ASSERT_EQ(cross.size(), 1u);
  EXPECT_EQ(t5.attentions()[cross[0].site].head_name(cross[0].index), "cross.L1.H3");
  // A pruned head has no name any more; those after it keep theirs.
  Checkpoint checkpoint("bert_pruned");
  const Model pruned = checkpoint.load();
  for (const AttentionSite& site : pruned.attentions()) {
    for (int32_t head = 0; head < 4; ++head) {
      const std::string name = site.name + ".H" + std::to_string(head);
      if (std::ranges::find(site.heads, head) == site.heads.end()) {
        EXPECT_THAT(error_of([&] { (void)pruned.find_heads(name); }).what,
                    HasSubstr("no such head"));
      } else {
        const HeadIndex found = pruned.find_heads(name).at(0);
        EXPECT_EQ(pruned.attentions()[found.site].head_name(found.index), name);
      }
    }
  }
}

TEST(ModelErrors, TokensToScoreAreOfTheVocabulary) {
  const Model model = golden("marian");
  TokenBatch source, target;
  source.add(std::vector<int32_t>{5, 6});
  target.add(std::vector<int32_t>{5, 2'000'000'000});  // the last one is never read by the decoder
  EXPECT_THAT(error_of([&] { (void)target_nll(model, source, target); }).what,
              HasSubstr("tokens to score"));
  target.offsets.back() = 100;
  EXPECT_THAT(error_of([&] { (void)target_nll(model, source, target); }).what,
              HasSubstr("do not cover"));
}

TEST(ModelErrors, StatesBelongToAModelAndASource) {
  const Model marian = golden("marian"), bert = golden("bert");
  TokenBatch sources;
  sources.add(std::vector<int32_t>{5, 6});
  sources.add(std::vector<int32_t>{7});
  DecoderState state = marian.start(2, 4, sources);
  EXPECT_THAT(error_of([&] { (void)bert.step(sources, state); }).what, HasSubstr("another model"));
  EXPECT_THAT(error_of([&] {
                state.reorder(std::vector<int64_t>{1, 0});
              }).what,
              HasSubstr("change its source"));
}

TEST(ModelErrors, GenerationSettingsThatChangeTheTextAreNamed) {
  const TemporaryFolder folder;
  for (const char* setting :
       {R"("min_length": 3)", R"("forced_bos_token_id": 1)", R"("early_stopping": "never")",
        R"("bad_words_ids": [[4294967301]])"}) {
    folder.write("generation_config.json", std::string("{") + setting + "}");
    const std::string name = std::string(setting).substr(1, std::string(setting).find('"', 1) - 1);
    EXPECT_THAT(error_of([&] { (void)read_generation(folder.path(), ModelConfig{}); }).where,
                HasSubstr(name));
  }
}

TEST(ModelErrors, GenerationThatCannotBegin) {
  const Model model = golden("gpt2");
  const TokenBatch texts = batch_of({{5, 6}, {7}});
  const std::vector<float> gates(2 * model.heads(), 1.f);
  const ForwardOptions per_text{.gates = {gates.data(), {2, model.heads()}}};
  EXPECT_EQ(
      error_of([&] { (void)generate(model, texts, {.beams = 2, .forward = per_text}); }).where,
      "gates");
  EXPECT_THAT(error_of([&] { (void)generate(model, texts, {.max_new_tokens = INT64_MAX}); }).what,
              HasSubstr("overflows"));
}

TEST(ModelErrors, TheDecoderStartsAsGenerationSays) {
  Checkpoint marian("marian");
  const TokenBatch source = batch_of({{5, 6, 7}});
  const auto first = generate(golden("marian"), source, {.max_new_tokens = 3}).front().ids;
  const int32_t start = marian.config["decoder_start_token_id"];
  marian.config.erase("decoder_start_token_id");
  marian.config.erase("bos_token_id");
  const Model model = load(marian.write());
  EXPECT_EQ(error_of([&] { (void)generate(model, source, {}); }).where, "decoder_start_token_id");
  const TemporaryFolder folder;
  folder.write("generation_config.json", json{{"decoder_start_token_id", start}}.dump());
  GenerateOptions options = read_generation(folder.path(), model.config());
  options.max_new_tokens = 3;
  EXPECT_EQ(generate(model, source, options).front().ids, first);
}

TEST(ModelErrors, RowsAndOffsetsThatAreNotThere) {
  const Activations rows(3, 2);
  EXPECT_THAT(error_of([&] { (void)gather(rows.rows, std::vector<int64_t>{0, 3}); }).got, "3");
  EXPECT_THAT(error_of([&] {
                (void)SentencePooling::mean().embed(rows.rows, std::vector<int64_t>{0, 4});
              }).expected,
              "ascending from 0 to 3");
}

TEST(ModelErrors, ModulesLieInsideTheFolder) {
  const TemporaryFolder folder;
  for (const char* path : {"../other", "/etc"}) {
    folder.write("modules.json", json::array({{{"type", "a.Pooling"}, {"path", path}}}).dump());
    EXPECT_THAT(error_of([&] { (void)SentencePooling::find(folder.path()); }).what,
                HasSubstr("outside the model's folder"));
  }
}

TEST(ModelErrors, DescriptionsThatAreLinksToNowhere) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("nowhere", folder.path() / "modules.json");
  EXPECT_THAT(error_of([&] { (void)SentencePooling::find(folder.path()); }).got,
              HasSubstr("a link to nowhere"));
  std::filesystem::create_symlink("nowhere", folder.path() / "generation_config.json");
  EXPECT_THAT(error_of([&] { (void)read_generation(folder.path(), {}); }).got,
              HasSubstr("a link to nowhere"));
}

}  // namespace
}  // namespace headwise
