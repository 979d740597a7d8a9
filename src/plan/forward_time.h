// How long a forward pass takes once heads are cut out.
//
// The model as it is is timed whole, and so is an attention of every shape that is asked for; what
// is left of the pass without its attentions is taken to stay the same. That is a prediction: only
// a model that was written without these heads can be measured.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {

class ForwardTime {
 public:
  /// Of 8 texts of 128 tokens, or as many as the model has positions for; an encoder-decoder reads
  /// as many on both sides. The model must outlive it. `check` is called now and then, and may
  /// throw.
  ForwardTime(const Model& model, std::function<void()> check);

  /// With what is kept of all heads.
  double seconds(std::span<const uint8_t> kept);

 private:
  double attention_seconds(const AttentionSite& site, std::span<const uint8_t> kept);

  const Model& model_;
  std::function<void()> check_;
  std::vector<int64_t> offsets_;
  double rest_ = 0;
  /// By whether they are causal, and their shapes.
  std::vector<std::pair<std::pair<bool, MultiHeadAttentionShape>, double>> measured_;
};

}  // namespace headwise
