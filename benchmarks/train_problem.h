// Models and batches to train on, the same for every side of a benchmark.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/train/batch.h"

namespace headwise::bench {

inline constexpr float kDropout = 0.1f;

struct TrainProblem {
  std::string name{};
  std::string task{};    // as peer_train.py names it
  std::string config{};  // the text of a config.json
  std::vector<TrainingBatch> batches{};
  float label_smoothing = 0;
  double flops = 0;  // of the products of one step on every batch, forward and backward

  int64_t tokens() const;  // of all batches, sources and targets
};

/// Encoder-decoder of width 256, 8 heads, 3 + 3 layers: 80 pairs of 25 tokens each.
TrainProblem translation();

/// The same on batches of about 2,000 tokens a side out of an epoch of real pairs: lines of two
/// parallel files, plain or gzip.
TrainProblem epoch_part(const std::filesystem::path& source, const std::filesystem::path& target,
                        int64_t batches);

/// Decoder of width 128, 8 heads, 4 layers: `texts` texts of `length` tokens.
TrainProblem language_model(int64_t texts, int64_t length);

/// MiniLM's shape, classifying 32 texts of 64 tokens.
TrainProblem fine_tuning();

}  // namespace headwise::bench
