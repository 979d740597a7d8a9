// A model of a known shape with random weights, in a folder that every side of a benchmark loads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "temporary_folder.h"

namespace headwise::bench {

struct ModelShape {
  std::string name{};
  int64_t layers = 0, width = 0, heads = 0, intermediate = 0;
  int64_t positions = 2048;
  int64_t shared = 0, active = 0;  // a mixture of heads, if not 0
};
inline const ModelShape kMiniLm{"minilm", 6, 384, 12, 1536};
inline const ModelShape kLongMiniLm{"minilm-long", 6, 384, 12, 1536, 32768};
inline const ModelShape kRoutedMiniLm{"minilm-routed", 6, 384, 12, 1536, 2048, 2, 4};
inline const ModelShape kBertBase{"bert-base", 12, 768, 12, 3072};
inline const ModelShape kGpt2{"gpt2", 12, 768, 12, 3072};

inline constexpr int64_t kVocabulary = 30522;
inline constexpr int64_t kGpt2Vocabulary = 50257;

/// Folders with checkpoints, deleted at the end.
class ModelFolders {
 public:
  /// A plain BERT encoder of this shape, or GPT-2 with its output; written when first asked for.
  std::filesystem::path folder(const ModelShape& shape);

 private:
  TemporaryFolder root_;
};

/// Texts of these lengths; token i of text b is the same on every side.
TokenBatch texts(const std::vector<int64_t>& lengths, int64_t vocabulary = kVocabulary);

std::span<const int32_t> text_of(const TokenBatch& batch, int64_t text);

/// For the peer: a list per text.
nlohmann::json ids_of(const TokenBatch& batch);

/// Multiply-adds times two of the products of one pass.
double forward_flops(const ModelShape& shape, const std::vector<int64_t>& lengths);

/// The same without what rows leave out that use only their shared and active heads: their query,
/// their row of attention, their part of the output.
double routed_flops(const ModelShape& shape, const std::vector<int64_t>& lengths);

/// Collects every label-free statistic of every head in one pass; texts of one length.
class StatisticsObserver : public ForwardObserver {
 public:
  StatisticsObserver(const Model& model, const TokenBatch& batch);

  AttentionObserver* attention_observer(const AttentionSite& site,
                                        const Attention& attention) override;

  /// Of all passes since the last call: for every head the means that peer_model.py gives too.
  std::vector<float> means();

 private:
  std::vector<AttentionObserver> observers_;  // one per attention
  std::vector<std::string> names_;
  std::vector<uint8_t> sets_;       // [2, T]: special tokens, punctuation
  std::vector<int64_t> given_key_;  // [T]
  std::vector<int32_t> largest_;    // [T, H]
  std::vector<float> given_weight_;
};

}  // namespace headwise::bench
