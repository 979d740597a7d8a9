// A stack of blocks with its embeddings: an encoder, or a decoder.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "model/block.h"
#include "model/layers.h"
#include "model/weight_reader.h"

namespace headwise {

class Stack {
 public:
  Stack() = default;
  /// `sites` are the model's; those of this side are its attentions.
  Stack(const ModelConfig& config, Side side, const std::string& prefix,
        std::span<const AttentionSite> sites, WeightReader& reader);

  /// The rows of a pass, from token ids to the last hidden states. `positions` [T] are those of the
  /// rows in their texts. `memories`, if any, one per block. No rows if the input is not whole.
  Activations forward(const TokenBatch& batch, BlockInput input, BlockScratch& scratch,
                      std::span<BlockKvCache> kv_caches) const;

  // The steps of it, for passes that stop between blocks.
  Activations embed(const TokenBatch& batch, std::span<const int64_t> positions) const;
  /// Of relative distances, or none.
  std::span<const int32_t> buckets() const { return buckets_; }
  /// From what leaves the last block to the last hidden states, in place.
  void finish(View<float, 2> x) const;

  std::span<const Block> blocks() const { return blocks_; }
  const Embedding& word() const { return word_; }
  const Norm& final_norm() const { return final_norm_; }
  Side side() const { return side_; }

 private:
  const ModelConfig* config_ = nullptr;
  Side side_ = Side::encoder;
  Embedding word_, position_, token_type_;
  Norm embedding_norm_;
  Linear embedding_projection_;  // or none
  std::vector<int32_t> buckets_;
  std::vector<Block> blocks_;
  Norm final_norm_;  // or none
};

}  // namespace headwise
