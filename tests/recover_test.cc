// Recovery of pruned folders: what they say comes nearer to what they said, and nothing else in
// them changes.
#include "headwise/prune/recover.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/core/random.h"
#include "headwise/io/tensor_file.h"
#include "headwise/prune/prune.h"
#include "io/io_testing.h"
#include "train_testing.h"

namespace headwise {
namespace {

/// A golden model without its first head.
class Recovered : public testing::TestWithParam<std::string> {
 protected:
  Recovered() {
    const std::vector<std::string> drop = {model_.attentions()[0].head_name(0)};
    prune(model_, drop, {.out = pruned_});
  }

  double error(const std::filesystem::path& folder, const Examples& examples) const {
    TrainableModel student = load_for_its_task(folder);
    return hidden_error(model_, examples, student);
  }

  Model model_ = load(golden_model(GetParam()));
  TemporaryFolder folder_;
  std::filesystem::path pruned_ = folder_.path() / "pruned";
  int64_t vocabulary_ = model_.config().vocabulary;
  TokenBatch source_ = random_texts(vocabulary_, 0);
  TokenBatch target_ =
      model_.config().encoder_decoder() ? random_texts(vocabulary_, 1) : TokenBatch();
};

TEST_P(Recovered, FromWhatTheModelSaidBefore) {
  const EvaluationSet set = unlabelled(source_, target_);
  const std::string config = contents_of(pruned_ / "config.json");
  const double before = error(pruned_, set.examples);
  const std::filesystem::path out = folder_.path() / "recovered";
  recover(load(pruned_), model_, set,
          {.epochs = 10, .tokens_per_batch = 100, .optimizer = {.rate = 1e-3}}, out);
  EXPECT_LT(error(out, set.examples), before / 2);
  EXPECT_EQ(error(pruned_, set.examples), before) << "the original is not touched";
  EXPECT_EQ(contents_of(out / "config.json"), config);
  const TensorFiles files = TensorFiles::open(out),
                    originals = TensorFiles::open(golden_model(GetParam()));
  EXPECT_EQ(files.tensors().size(), originals.tensors().size());
  for (const TensorInfo& tensor : files.tensors()) {
    EXPECT_EQ(tensor.dtype, originals.find(tensor.name)->dtype) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Recovered,
                         testing::Values("bert", "bert_half", "bert_plain", "gpt2", "llama",
                                         "marian", "t5", "sentence_mean", "t5_with_copies",
                                         "roberta_with_copies", "marian_as_found", "bert_of_2018"),
                         [](const auto& info) { return info.param; });

TEST(RecoveredByLabels, LearnsThem) {
  const Model model = load(golden_model("bert_sequence"));
  const PrunedModel pruned = prune(model, std::vector<std::string>{"L0.H0"});
  EvaluationSet set{.task = LossTask::classify};
  set.examples.all.source = random_texts(model.config().vocabulary, 0);
  for (int64_t b = 0; b < set.examples.all.source.sequences(); ++b) {
    set.examples.all.labels.push_back(
        set.examples.all.source.ids[set.examples.all.source.offsets[b]] % 2);
  }
  const auto loss = [&](const Model& one) {
    return load_for_its_task(one.folder()).evaluate(set.examples.all).nll;
  };
  const Model recovered = recover(
      pruned, model, set, {.epochs = 10, .tokens_per_batch = 100, .optimizer = {.rate = 3e-3}});
  EXPECT_LT(loss(recovered), 0.8 * loss(pruned));
}

}  // namespace
}  // namespace headwise
