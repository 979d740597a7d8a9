// Activation patching: many variants of a model in one pass over a batch, with replaced head
// outputs.
//
// The part before the first patched attention is computed once. From there, the variants of one
// attention run together as more sequences of one batch. The last block is computed only at the
// rows that are wanted.
//
// Letters: B texts, T rows of them, R rows that are wanted, V variants that are run together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/model/model.h"
#include "model/block.h"

namespace headwise {

/// Replaces the output of a head at all rows.
struct ActivationPatch {
  int64_t head = 0;                 // among all heads of the model
  std::span<const float> output{};  // [Dv]
};

/// Each head at most once.
using Variant = std::vector<ActivationPatch>;

/// The unchanged model.
inline constexpr int64_t kUnchanged = -1;

/// Hidden states of some variants. A sequence is a text of a variant.
struct PatchedRows {
  std::span<const int64_t> variants{};  // [V]
  View<const float, 2> rows{};          // [V * R, C], those that are wanted
  std::span<const int64_t> offsets{};   // [V * B + 1], of sequences among them
  int64_t texts = 0;                    // B
  bool by_text = false;  // text 0 of all variants, then text 1, …; else variant by variant

  int64_t sequence(int64_t variant, int64_t text) const {
    return by_text ? text * std::ssize(variants) + variant : variant * texts + text;
  }
};

class PatchedForward {
 public:
  struct Options {
    std::span<const float> gates{};  // [heads] of the model that is varied; empty: all 1
    int64_t rows_at_once = 2048;     // of variants that are run together, at least one of them
  };
  struct Batch {
    const TokenBatch& source;
    /// The decoder's input of encoder-decoders; without texts, hidden states are the encoder's.
    const TokenBatch& target;
    std::span<const int64_t> rows{};  // of the last hidden states, ascending
    bool unchanged = true;            // whether the rows of the model itself are wanted
  };
  using Take = std::function<void(const PatchedRows& rows)>;

  /// The model must outlive it.
  PatchedForward(const Model& model, const Options& options);

  /// Calls `take` with rows of the last hidden states (after the final norm where there is one) of
  /// all variants, some at a time, and at the end of the model itself. If those of the model itself
  /// are not wanted, it runs only as far as the last attention from which a variant starts.
  /// Variants of nothing that is run are left out. Throws Error for texts that do not fit the
  /// model.
  void run(const Batch& batch, std::span<const Variant> variants, const Take& take);

 private:
  class Run;

  const Model& model_;
  Options options_;

  // Memory, reused.
  BlockScratch scratch_;
  bool dynamic_ntk_ =
      false;  // the rotary angles are those of one long text, with dynamic NTK scaling
  Buffer heads_, row_sum_, delta_, rows_, grouped_, out_, target_rows_;
};

}  // namespace headwise
