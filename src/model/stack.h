// A stack of blocks with its embeddings: an encoder, or a decoder. It runs, and is trained with a
// tape.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "model/block.h"
#include "model/layers.h"
#include "model/weight_source.h"

namespace headwise {

class Stack {
 public:
  struct Place {
    const ModelConfig& config;
    Side side;
    const std::string& prefix;             // of the base model's tensors
    std::span<const AttentionSite> sites;  // the model's; those of this side are its attentions
    const Embedding* shared_word;          // the encoder's, for a decoder that may use it
    uint64_t& streams;                     // of random numbers: the next one that is free
  };
  /// What backward needs of a pass.
  struct Tape {
    const TokenBatch* batch = nullptr;
    BlockInput input;
    BlockInput end;       // the same with the wanted rows alone: behind the last block
    bool narrow = false;  // and already in it
    std::vector<int64_t> positions;
    std::vector<int32_t> position_rows, types;
    Rows summed, embedded, projected, gathered, final, dscattered, dembedded;
    View<float, 2> last;
    std::vector<Block::Tape> blocks;
  };

  Stack() = default;
  Stack(WeightSource& source, const Place& place);

  /// The rows of a pass, from token ids to the last hidden states. `positions` [T] are those of the
  /// rows in their texts. `kv_caches`, if any, one per block. No rows if the input is not whole.
  Activations forward(const TokenBatch& batch, BlockInput input, BlockScratch& scratch,
                      std::span<BlockKvCache> kv_caches) const;

  // The steps of it, for passes that stop between blocks.
  Activations embed(const TokenBatch& batch, std::span<const int64_t> positions) const;
  /// Of relative distances, or none.
  const RelativeBiasTable* relative() const { return relative_.exists() ? &relative_ : nullptr; }
  /// From what leaves the last block to the last hidden states, in place.
  void finish(View<float, 2> x) const;

  /// With a tape: the last hidden states, or the wanted rows of them, in the tape. The batch, and
  /// what the input points to, must be there until backward. Throws Error for tokens that do not
  /// fit the model.
  View<float, 2> forward(const TokenBatch& batch, const BlockInput& input, Tape& tape,
                         BlockScratch& scratch) const;
  /// d is the gradient of what forward gave, and is used up; balance losses count this much.
  void backward(View<float, 2> d, double balance_scale, Tape& tape, BlockScratch& scratch) const;

  /// How many blocks a gradient must come through to reach all that is trained, from the last one;
  /// one more: the embeddings as well. `all_blocks`: also those that nothing is trained in.
  int64_t depth_of_backward(bool all_blocks) const;
  bool wants_gradient(bool all_blocks) const {
    return depth_of_backward(all_blocks) > 0 || final_norm_.requires_grad();
  }
  /// The losses that spread rows over routed heads, of what the tape has.
  double balance_loss(const Tape& tape) const;

  std::span<const Block> blocks() const { return blocks_; }
  const Embedding& word() const { return word_; }
  const Norm& final_norm() const { return final_norm_; }
  Side side() const { return side_; }

  /// Rotary angles for these positions, in the scratch, if the model has any.
  void grow_rotary(AttentionScratch& scratch, std::span<const int64_t> positions) const;

 private:
  void read_word(WeightSource& source, const Place& place, const StackNaming& naming);
  void read_positions(WeightSource& source, const StackNaming& naming);
  /// The rows of the table of positions, if there is one, and token types are those of the tape.
  void sum_embeddings(const TokenBatch& batch, std::span<const int32_t> position_rows,
                      std::span<const int32_t> types, View<float, 2> out) const;
  std::vector<int32_t> types_of(const TokenBatch& batch) const;
  View<float, 2> embed(Tape& tape) const;
  void backward_embeddings(View<float, 2> d, Tape& tape) const;
  const BlockInput& input_of(size_t layer, const Tape& tape) const {
    return tape.narrow && layer + 1 == blocks_.size() ? tape.end : tape.input;
  }

  const ModelConfig* config_ = nullptr;
  Side side_ = Side::encoder;
  bool drops_finally_ = false;
  Embedding word_, position_, token_type_;
  Norm embedding_norm_, final_norm_;  // or none
  Linear embedding_projection_;       // or none
  RelativeBiasTable relative_;        // or none
  std::vector<Block> blocks_;
  uint64_t embedding_stream_ = 0, final_stream_ = 0;
};

}  // namespace headwise
