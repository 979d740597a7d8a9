// What benchmarks of training train, and on what.
#include "train_problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "headwise/core/random.h"
#include "headwise/model/config.h"
#include "headwise/text/tokenizer.h"
#include "headwise/text/train_bpe.h"
#include "headwise/train/batches.h"
#include "headwise/train/examples.h"
#include "model_problem.h"
#include "temporary_folder.h"

namespace headwise::bench {
namespace {

constexpr int64_t kSmallVocabulary = 8000;
constexpr int32_t kStart = 0, kEnd = 1, kFirstWord = 4;

/// Six per weight and row: two forward, four backward.
double product_flops(double weights, int64_t rows) {
  return 6 * weights * static_cast<double>(rows);
}

/// Scores and mixes of attention, forward and backward, as if no row were hidden.
double attention_flops(int64_t width, const TokenBatch& queries, const TokenBatch& keys) {
  double pairs = 0;
  for (int64_t b = 0; b < queries.sequences(); ++b) {
    pairs += static_cast<double>((queries.offsets[b + 1] - queries.offsets[b]) *
                                 (keys.offsets[b + 1] - keys.offsets[b]));
  }
  return 12 * pairs * static_cast<double>(width);
}

std::vector<int32_t> random_ids(Random& random, int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) {
    id = kFirstWord + static_cast<int32_t>(random.below(vocabulary - kFirstWord));
  }
  return ids;
}

TrainProblem marian_problem(std::string name, std::vector<TrainingBatch> batches) {
  constexpr int64_t C = 256, F = 1024, L = 3;
  TrainProblem problem{.name = std::move(name),
                       .task = "translation",
                       .batches = std::move(batches),
                       .label_smoothing = 0.1f};
  problem.config = fmt::format(
      R"({{"architectures": ["MarianMTModel"], "model_type": "marian", "d_model": {}, "vocab_size": {},
"encoder_layers": {}, "decoder_layers": {}, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
"encoder_ffn_dim": {}, "decoder_ffn_dim": {}, "activation_function": "relu", "max_position_embeddings": 256,
"scale_embedding": true, "share_encoder_decoder_embeddings": true, "tie_word_embeddings": true, "pad_token_id": 0,
"eos_token_id": {}, "decoder_start_token_id": {}, "bos_token_id": null, "forced_eos_token_id": {}, "is_encoder_decoder": true,
"init_std": 0.05, "dtype": "float32"}})",
      C, kSmallVocabulary, L, L, F, F, kEnd, kStart, kEnd);
  for (const TrainingBatch& batch : problem.batches) {
    const int64_t S = batch.source.rows(), T = batch.target.rows();
    problem.flops += product_flops(L * (4 * C * C + 2 * C * F), S) +
                     product_flops(L * (6 * C * C + 2 * C * F) + C * kSmallVocabulary, T) +
                     product_flops(L * 2 * C * C, S) +
                     L * (attention_flops(C, batch.source, batch.source) +
                          attention_flops(C, batch.target, batch.target) +
                          attention_flops(C, batch.target, batch.source));
  }
  return problem;
}

}  // namespace

int64_t TrainProblem::tokens() const {
  int64_t tokens = 0;
  for (const TrainingBatch& batch : batches) tokens += batch.tokens();
  return tokens;
}

TrainProblem translation() {
  constexpr int64_t kPairs = 80, kLength = 25;
  TrainingBatch batch;
  Random random(1);
  for (int64_t b = 0; b < kPairs; ++b) {
    batch.source.add(random_ids(random, kLength, kSmallVocabulary));
    const std::vector<int32_t> target = random_ids(random, kLength, kSmallVocabulary);
    batch.target.add(target);
    batch.labels.insert(batch.labels.end(), target.begin(), target.end());
  }
  return marian_problem("translation batch=80x25", {batch});
}

TrainProblem epoch_part(const std::filesystem::path& source, const std::filesystem::path& target,
                        int64_t batches) {
  TrainProblem problem = marian_problem("translation batch=real-lengths", {});
  const TemporaryFolder folder;
  BpeTrainer trainer;
  add_words({source, target}, Documents::lines, trainer);
  BpeSettings settings = bpe_settings("marian");
  settings.vocabulary = kSmallVocabulary;
  trainer.train(settings, folder.path());
  const Examples examples =
      read_translation(source, target, Tokenizer::load(folder.path()),
                       parse_config(problem.config, "the config of the benchmark"));
  const Epoch epoch(examples, {.tokens = 4000, .seed = 1}, 0);
  std::vector<TrainingBatch> part;
  for (int64_t i = 0; i < std::min(batches, epoch.batches()); ++i) part.push_back(epoch.batch(i));
  return marian_problem(problem.name, std::move(part));
}

TrainProblem language_model(int64_t texts, int64_t length) {
  constexpr int64_t C = 128, F = 4 * C, L = 4;
  TrainProblem problem{.name = fmt::format("lm batch={}x{}", texts, length), .task = "causal_lm"};
  problem.config = fmt::format(
      R"({{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": {}, "n_layer": {}, "n_head": 8,
"n_inner": {}, "n_positions": 128, "vocab_size": {}, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
"tie_word_embeddings": true, "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.02, "dtype": "float32"}})",
      C, L, F, kSmallVocabulary);
  TrainingBatch batch;
  Random random(2);
  for (int64_t b = 0; b < texts; ++b) {
    const std::vector<int32_t> ids = random_ids(random, length + 1, kSmallVocabulary);
    batch.source.add(std::span(ids).first(length));
    batch.labels.insert(batch.labels.end(), ids.begin() + 1, ids.end());
  }
  problem.flops =
      product_flops(L * (4 * C * C + 2 * C * F) + C * kSmallVocabulary, texts * length) +
      L * attention_flops(C, batch.source, batch.source) / 2;
  problem.batches = {std::move(batch)};
  return problem;
}

TrainProblem fine_tuning() {
  constexpr int64_t kTexts = 32, kLength = 64;
  const ModelShape& shape = kMiniLm;
  TrainProblem problem{.name = "minilm batch=32x64", .task = "classification"};
  problem.config = fmt::format(
      R"({{"architectures": ["BertForSequenceClassification"], "model_type": "bert", "hidden_size": {},
"num_hidden_layers": {}, "num_attention_heads": {}, "intermediate_size": {}, "vocab_size": {}, "max_position_embeddings": 512,
"type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0, "initializer_range": 0.02,
"id2label": {{"0": "0", "1": "1"}}, "label2id": {{"0": 0, "1": 1}}, "dtype": "float32"}})",
      shape.width, shape.layers, shape.heads, shape.intermediate, kVocabulary);
  TrainingBatch batch;
  Random random(3);
  for (int64_t b = 0; b < kTexts; ++b) {
    batch.source.add(random_ids(random, kLength, kVocabulary));
    batch.labels.push_back(static_cast<int32_t>(b % 2));
  }
  const double C = static_cast<double>(shape.width), L = static_cast<double>(shape.layers);
  problem.flops = product_flops(L * (4 * C * C + 2 * C * static_cast<double>(shape.intermediate)),
                                kTexts * kLength) +
                  L * attention_flops(shape.width, batch.source, batch.source);
  problem.batches = {std::move(batch)};
  return problem;
}

}  // namespace headwise::bench
