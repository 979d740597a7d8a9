// A stack of blocks with its embeddings in training: an encoder, or a decoder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/block.h"

namespace headwise {

class TrainedStack {
 public:
  struct Place {
    const ModelConfig& config;
    Side side;
    const std::string& prefix;
    std::span<const AttentionSite> sites;
    const InitStd& init_std;
    Embedding* shared_word;  // the encoder's, for a decoder that may use it
    uint64_t& streams;
  };
  /// The encoder's side of cross attention.
  struct Source {
    std::span<const int64_t> offsets{};
    View<const float, 2> rows{};
    View<float, 2> gradient{};  // added to
  };

  TrainedStack(ParameterList& declare, const Place& place);
  TrainedStack(const TrainedStack&) = delete;
  TrainedStack& operator=(const TrainedStack&) = delete;

  /// From token ids to the last hidden states, or the wanted rows of them, in memory of the stack;
  /// `batch`, `options`, `source` and `wanted` must be there until backward. Throws Error for
  /// tokens that do not fit the model.
  View<float, 2> forward(const TokenBatch& batch, const PassOptions& options, const Source& source,
                         WantedRows wanted, TrainedBlock::Scratch& scratch);

  /// How many blocks a gradient must come through to reach all that is trained, from the last one;
  /// one more: the embeddings as well. `all_blocks`: also those that nothing is trained in.
  int64_t depth_of_backward(bool all_blocks) const;
  bool wants_gradient(bool all_blocks) const {
    return depth_of_backward(all_blocks) > 0 || final_norm_.requires_grad();
  }

  /// The losses that spread rows over routed heads in the last forward.
  double balance_loss() const;

  /// Of the last forward: d is the gradient of what it gave, and is used up; balance losses count
  /// this much.
  void backward(View<float, 2> d, double balance_scale, TrainedBlock::Scratch& scratch);

  std::span<TrainedBlock> blocks() { return blocks_; }
  Embedding& word() { return *word_; }

 private:
  void declare_word(ParameterList& declare, const Place& place, const StackNaming& naming);
  void declare_positions(ParameterList& declare, const Place& place, const StackNaming& naming);
  View<float, 2> embed();
  void backward_embeddings(View<float, 2> d);
  void grow_rotary();
  const StackPass& pass_of(int64_t layer) const;

  const ModelConfig* config_;
  Side side_;
  bool drops_finally_;
  Embedding own_word_, position_, token_type_;
  Embedding* word_ = nullptr;
  Norm embedding_norm_, final_norm_;
  Linear embedding_projection_;  // or none
  TrainedRelativeBias relative_;
  std::vector<TrainedBlock> blocks_;
  uint64_t embedding_stream_ = 0, final_stream_ = 0;
  RotaryTable rotary_;

  // The last forward.
  const TokenBatch* batch_ = nullptr;
  StackPass pass_;
  StackPass end_;        // the same with the wanted rows alone: behind the last block
  bool narrow_ = false;  // and already in it
  std::vector<int64_t> positions_;
  std::vector<int32_t> position_rows_, types_;
  Rows summed_, embedded_, projected_, picked_, final_, dspread_, dembedded_;
  View<float, 2> last_;
  std::vector<TrainedBlock::Tape> tapes_;
};

}  // namespace headwise
