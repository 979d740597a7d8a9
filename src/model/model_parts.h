// The parts of a model, for the passes that go through them.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "model/transformer.h"

namespace headwise {

/// For passes that have a way back.
const Transformer& layers_of(const Model& model);

struct Model::Parts : Transformer {
  using Transformer::Transformer;

  // Memory of the last pass, for the next one. A second pass at the same time has its own.
  std::mutex mutex;
  std::unique_ptr<BlockScratch> spare;

  class Lease {
   public:
    explicit Lease(Parts& parts) : parts_(parts) {
      const std::lock_guard lock(parts.mutex);
      scratch_ = std::move(parts.spare);
      if (scratch_ == nullptr) scratch_ = std::make_unique<BlockScratch>();
    }
    ~Lease() {
      const std::lock_guard lock(parts_.mutex);
      parts_.spare = std::move(scratch_);
    }
    BlockScratch& scratch() { return *scratch_; }

   private:
    Parts& parts_;
    std::unique_ptr<BlockScratch> scratch_;
  };

  /// Runs a stack; `state` only in steps.
  Activations run(const Stack& stack, const TokenBatch& batch, BlockInput input,
                  DecoderState* state, std::span<BlockKvCache> kv_caches);

  /// The encoder, or the decoder if there is none.
  Activations run_first(const TokenBatch& batch, const ForwardOptions& options, bool whole);

  /// Texts one by one, because each has angles of its own.
  Activations run_apart(const Stack& stack, const TokenBatch& batch, const BlockInput& input);

  /// Whether a text is so long that its rotary angles are scaled by its length.
  bool needs_dynamic_ntk(int64_t length) const {
    return config.rotary.dynamic_factor > 0 && length > config.max_positions;
  }
  /// The angles of such a text.
  RotaryTable dynamic_ntk_rotary(int64_t length) const;
};

}  // namespace headwise
