// How long a forward pass takes once heads are cut out.
//
// Predicted: the model as it is is timed whole, and so is an attention of every shape that is asked
// for; what is left of the pass without its attentions is taken to stay the same. Measured: a
// compact model is written without the heads, loaded, and timed in turns with the other.
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

  /// How many times as fast a model is with what is kept of all heads.
  double predicted_speedup(std::span<const uint8_t> kept);
  double measured_speedup(std::span<const uint8_t> kept) const;

 private:
  double seconds(std::span<const uint8_t> kept);
  double attention_seconds(const AttentionSite& site, std::span<const uint8_t> kept);

  const Model& model_;
  std::function<void()> check_;
  std::vector<int64_t> offsets_;
  double rest_ = 0;
  /// By whether they are causal, and their shapes.
  std::vector<std::pair<std::pair<bool, MultiHeadAttentionShape>, double>> measured_;
};

}  // namespace headwise
