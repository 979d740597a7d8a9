// Matches the heads of two models by their attention.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"
#include "headwise/text/tokenizer.h"

namespace headwise {

/// Two heads that were assigned to each other, and the mean over rows of the Jensen-Shannon
/// divergence of their weights.
struct HeadMatch {
  std::string a{}, b{};
  double js = 0;
  bool operator==(const HeadMatch&) const = default;
};

/// The assignment of heads, one to one, with the least sum of js: within one layer, or over all
/// layers of one type of attention.
struct LayerMatch {
  std::string layer{};               // "L3"; over all layers "all", or "enc", "dec", "cross"
  std::vector<HeadMatch> matches{};  // in the order of the heads of the first model
  double mean = 0;                   // of js over the matches
  double random_mean = 0;            // of a random assignment
  bool operator==(const LayerMatch&) const = default;
};

struct ModelMatch {
  std::vector<LayerMatch> layers{};
  double mean = 0, random_mean = 0;  // over all matches
  bool operator==(const ModelMatch&) const = default;
};

struct MatchOptions {
  bool across = false;                      // over all layers, not within the same depth
  std::vector<float> gates_a{}, gates_b{};  // [heads] of each model; empty: all 1
  /// Texts done and all of them. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress{};
};

/// Both models read the texts of the corpus. If two layers differ in the number of heads, as many
/// heads are matched as the smaller one has. A pair that shares no visible key gets the largest
/// divergence. Throws Error if the models cannot read the same texts, or have no attention in
/// common.
ModelMatch match_heads(const Model& a, const Model& b, const ObservedCorpus& corpus,
                       const MatchOptions& options = {});

/// Texts of random tokens, drawn by the seed, for models that read no text.
ObservedCorpus random_corpus(const ModelConfig& config, uint64_t seed);

/// Throws Error unless every id is the same token for both; `where` names the second one.
void check_same_tokens(const Tokenizer& a, const Tokenizer& b, const std::string& where);
/// The same of two models, as far as that is known: without tokenizers, of the number of tokens.
void check_same_tokens(const Model& a, const Model& b);

}  // namespace headwise
