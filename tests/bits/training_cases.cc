// Trainings of golden models, and trainings that are resumed.
#include <fmt/format.h>

#include <iterator>

#include "bits/bits.h"
#include "headwise/train/settings.h"
#include "headwise/train/trainer.h"
#include "io/io_testing.h"
#include "train/optimizer.h"
#include "train_testing.h"

namespace headwise {
namespace {

/// The losses and the norms of the gradients of 20 steps, and the weights after them.
std::string twenty_steps(const std::string& name, const PassOptions& pass, double clip,
                         const std::optional<LearnedGates>& gates) {
  TrainableModel model = load_for_its_task(golden_model(name));
  if (gates) model.learn_gates(*gates);
  const TrainingBatch batch = GoldenGradients(name).batch();
  Optimizer optimizer(model, {.rate = 1e-3, .clip = clip});
  BitHash hash;
  for (int64_t step = 1; step <= 20; ++step) {
    PassOptions options = pass;
    options.seed = static_cast<uint64_t>(step);
    options.gradient_scale = 1 / static_cast<float>(batch.scored());
    const Loss loss = model.train(batch, options);
    const double norm = optimizer.gradient_norm();
    hash.add(loss.loss);
    hash.add(loss.nll);
    hash.add(norm);
    optimizer.step(step, 1, norm);
  }
  hash.add(model.learned_gates());
  const TemporaryFolder folder;
  model.save(folder.path());
  hash.add_tensors(folder.path());
  return hash.finish();
}

/// `count` lines of words at random; line i of two files with the same seed says the same.
std::string lines(const std::vector<std::string>& words, int count, uint64_t seed) {
  Random random(seed);
  std::string text;
  for (int line = 0; line < count; ++line) {
    const uint32_t length = 3 + random.below(5);
    for (uint32_t i = 0; i < length; ++i) {
      text += words[random.below(static_cast<uint32_t>(words.size()))] + " ";
    }
    text.back() = '\n';
  }
  return text;
}

/// Interrupts a training after some steps.
class After : public TrainObserver {
 public:
  explicit After(int64_t steps) : left_(steps) {}
  void stepped(const TrainProgress&) override { --left_; }
  bool interrupted() override { return left_ == 0; }

 private:
  int64_t left_;
};

std::string resumed(const std::string& task, const std::string& model, const std::string& more) {
  const TemporaryFolder folder;
  const std::vector<std::string> words = {"red", "big", "cat", "dog", "sees", "runs", "the"},
                                 others = {"rot",   "gross", "katze", "hund",
                                           "sieht", "rennt", "der"};
  folder.write("a.txt", lines(words, 60, 1));
  folder.write("b.txt", lines(others, 60, 1));
  const std::string data =
      task == "translation" ? R"({"source": "a.txt", "target": "b.txt"})" : R"("a.txt")";
  const TrainSettings settings = parse_train_settings(fmt::format(R"({{"task": "{}",
                       "model": {{"architecture": "{}", "hidden_size": 16, "layers": 2, "heads": 2,
                                  "max_position_embeddings": 32, "vocab_size": 300, "feed_forward": 32}},
                       "data": {{"train": {}, "length": 16}},
                       "tokens_per_batch": 64, "accumulate": 2, "steps": 12,
                       "optimizer": {{"rate": 0.01}},
                       "schedule": {{"kind": "cosine", "warmup": 3}},
                       "head_dropout": 0.1, "seed": 3{}}})",
                                                                  task, model, data, more),
                                                      "settings", folder.path());
  const std::filesystem::path out = folder.path() / "out";
  After five(5), never(-1);
  EXPECT_FALSE(train(settings, out, false, five));
  EXPECT_EQ(train(settings, out, true, never).value().plan.resumed_at, 5);
  BitHash hash;
  hash.add_tensors(out);
  return hash.finish();
}

}  // namespace

std::vector<BitCase> training_cases() {
  std::vector<BitCase> cases;
  for (const std::string& name : models_with_gradients()) {
    const bool has_a_variant = name.find('_') != std::string::npos;
    if (!has_a_variant) {
      cases.push_back({name + ".plain", [name] { return twenty_steps(name, {}, 0, {}); }});
    }
    cases.push_back({name, [name] {
                       return twenty_steps(name,
                                           {.dropout = 0.1f,
                                            .attention_dropout = 0.1f,
                                            .head_dropout = 0.1f,
                                            .label_smoothing = 0.1f},
                                           0.1, LearnedGates{.l0 = 0.01});
                     }});
  }
  cases.push_back({"resumed.gpt2", [] { return resumed("causal_lm", "gpt2", ""); }});
  cases.push_back({"resumed.llama", [] { return resumed("causal_lm", "llama", ""); }});
  cases.push_back({"resumed.bert", [] { return resumed("masked_lm", "bert", ""); }});
  cases.push_back({"resumed.marian", [] { return resumed("translation", "marian", ""); }});
  cases.push_back({"resumed.gates", [] {
                     return resumed("causal_lm", "gpt2",
                                    R"(, "gates": {"kind": "hard_concrete", "l0": 0.1})");
                   }});
  return cases;
}

}  // namespace headwise
