// What training saves: all that was loaded, and output layers that were not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "headwise/io/tensor_file.h"
#include "headwise/model/model.h"
#include "io/io_testing.h"
#include "train_testing.h"

namespace headwise {
namespace {

std::vector<std::string> all_trainable() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_model(""))) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    const ModelConfig config = read_config(entry.path());
    if (config.task == Task::answer || config.task == Task::detect || config.multi_label) continue;
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("dense")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

class SaveLaws : public testing::TestWithParam<std::string> {};

TEST_P(SaveLaws, WhatIsLoadedIsSavedAsItWas) {
  const TemporaryFolder folder;
  load_for_its_task(golden_model(GetParam())).save(folder.path());
  const TensorFiles before = TensorFiles::open(golden_model(GetParam()));
  const TensorFiles after = TensorFiles::open(folder.path());
  for (const TensorInfo& tensor : after.tensors()) {
    const TensorInfo* same = before.find(tensor.name);
    if (same == nullptr) {  // as norms were once called
      std::string old = tensor.name;
      for (const auto& [now, then] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"},
                                      std::pair{"LayerNorm.bias", "LayerNorm.beta"}}) {
        if (old.ends_with(now)) old = old.substr(0, old.size() - std::strlen(now)) + then;
      }
      same = before.find(old);
    }
    ASSERT_NE(same, nullptr) << tensor.name;
    EXPECT_EQ(tensor.dtype, same->dtype) << tensor.name;
    EXPECT_EQ(tensor.shape, same->shape) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(after.bytes(tensor).span(), before.bytes(*same).span()))
        << tensor.name;
  }
  EXPECT_EQ(before.metadata(), after.metadata());
  // What is not there any more was a copy or a buffer: the model is the same.
  Model old = load(golden_model(GetParam())), saved = load(folder.path());
  EXPECT_EQ(old.config().architecture, saved.config().architecture);
  EXPECT_EQ(old.output_width(), saved.output_width());
  TokenBatch text;
  text.add(std::vector<int32_t>{4, 9, 5, 7});
  const auto bits = [&](const Model& model) {
    Activations hidden =
        model.config().encoder_decoder() ? model.forward(text, text) : model.forward(text);
    if (model.output_width() > 0) hidden = model.output(hidden.rows);
    return std::vector<float>(hidden.rows.data(),
                              hidden.rows.data() + hidden.rows.extent(0) * hidden.rows.extent(1));
  };
  EXPECT_EQ(bits(old), bits(saved));
}

INSTANTIATE_TEST_SUITE_P(Models, SaveLaws, testing::ValuesIn(all_trainable()),
                         [](const auto& info) { return info.param; });

struct Retrained {
  const char* folder;
  Task task;
  const char* architecture;
};

std::ostream& operator<<(std::ostream& out, const Retrained& what) {
  return out << what.folder << " as " << what.architecture;
}

class RetrainLaws : public testing::TestWithParam<Retrained> {};

TEST_P(RetrainLaws, AnOutputLayerThatIsNotThereIsMade) {
  const auto& [name, task, architecture] = GetParam();
  const TemporaryFolder folder;
  TrainFor what{.task = task, .seed = 4};
  if (task == Task::classify) what.labels = {"bad", "fair", "good"};
  TrainableModel model = TrainableModel::load(golden_model(name), what);
  EXPECT_EQ(model.config().architecture, architecture);
  model.save(folder.path());
  const Model saved = load(folder.path());
  EXPECT_EQ(saved.config().task, task);
  EXPECT_EQ(saved.config().architecture, architecture);
  EXPECT_EQ(saved.output_width() > 0, task != Task::hidden);
  if (task == Task::classify) {
    EXPECT_EQ(saved.config().labels, what.labels);
  }
  // What was there before is there still.
  TokenBatch text;
  text.add(std::vector<int32_t>{4, 9, 5, 7});
  const Activations before = load(golden_model(name)).forward(text);
  const Activations after = saved.forward(text);
  EXPECT_EQ(0, std::memcmp(before.rows.data(), after.rows.data(),
                           sizeof(float) * after.rows.extent(0) * after.rows.extent(1)));
  // And it is trained for what it was saved for.
  EXPECT_EQ(TrainableModel::load(folder.path(), {.task = task}).tensors().size(),
            model.tensors().size());
}

INSTANTIATE_TEST_SUITE_P(
    Models, RetrainLaws,
    testing::Values(Retrained{"bert_plain", Task::classify, "BertForSequenceClassification"},
                    Retrained{"bert", Task::classify, "BertForSequenceClassification"},
                    Retrained{"bert_sequence", Task::masked_lm, "BertForMaskedLM"},
                    Retrained{"bert", Task::hidden, "BertModel"},
                    Retrained{"bert_token", Task::classify, "BertForSequenceClassification"},
                    Retrained{"sentence_mean", Task::classify, "BertForSequenceClassification"},
                    Retrained{"roberta", Task::classify, "RobertaForSequenceClassification"},
                    Retrained{"roberta_plain", Task::masked_lm, "RobertaForMaskedLM"},
                    Retrained{"distilbert_plain", Task::classify,
                              "DistilBertForSequenceClassification"},
                    Retrained{"distilbert_plain", Task::masked_lm, "DistilBertForMaskedLM"},
                    Retrained{"electra_plain", Task::classify, "ElectraForSequenceClassification"},
                    Retrained{"electra_discriminator", Task::masked_lm, "ElectraForMaskedLM"},
                    Retrained{"mpnet_plain", Task::classify, "MPNetForSequenceClassification"},
                    Retrained{"gpt2", Task::classify, "GPT2ForSequenceClassification"},
                    Retrained{"gpt2_sequence", Task::causal_lm, "GPT2LMHeadModel"},
                    Retrained{"gpt_neox", Task::classify, "GPTNeoXForSequenceClassification"},
                    Retrained{"llama_plain", Task::causal_lm, "LlamaForCausalLM"},
                    Retrained{"qwen2", Task::classify, "Qwen2ForSequenceClassification"}),
    [](const auto& info) {
      return std::string(info.param.folder) + "_" + info.param.architecture;
    });

}  // namespace
}  // namespace headwise
