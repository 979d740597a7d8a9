// Two heads of one model, side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"
#include "headwise/observe/head_weights.h"

namespace headwise {

struct HeadComparison {
  std::string a{}, b{};  // "L7.H9", "L7.H10"
  int64_t rows = 0;
  double js = 0;  // mean over rows of the Jensen-Shannon divergence of their weights, in nats
  /// The mean of that between all other pairs of heads of the two layers, if there are others.
  std::optional<double> others_js{};
  double output_cka = 0;  // centred linear CKA of what they add to the residual stream
  std::map<std::string, SubspaceRelation> subspaces{};  // q, k, v, o
};

struct CompareHeadsOptions {
  std::vector<float> gates{};  // [heads] of the model; empty: all 1
  /// Texts done and all of them. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress{};
};

/// Throws Error for one head twice, for heads of different kinds of attention (of the encoder, of
/// the decoder, cross attention), and without texts.
HeadComparison compare_heads(const Model& model, HeadIndex a, HeadIndex b,
                             const ObservedCorpus& corpus, const CompareHeadsOptions& options = {});

}  // namespace headwise
