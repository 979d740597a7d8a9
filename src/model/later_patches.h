// Patches in attentions after the first patched one of a variant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "model/patched_forward.h"
#include "model/patched_rows.h"

namespace headwise {

/// Replaces head outputs in the rows of some variants.
class LaterPatches : public ForwardObserver {
 public:
  struct Patch {
    const AttentionSite* site;
    int64_t variant, head;
    std::span<const float> output;
  };

  void add(const Patch& patch) { patches_.push_back(patch); }
  bool any() const { return !patches_.empty(); }

  /// The rows of the next attentions.
  void lay_out(const Sequences& sequences, int64_t texts, int64_t variants, bool by_text) {
    offsets_ = sequences.offsets;
    rows_ = {.texts = texts, .by_text = by_text};
    numbers_.resize(static_cast<size_t>(variants));
    rows_.variants = numbers_;
  }

  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2>) override {
    for (const Patch& patch : patches_) {
      if (patch.site != &site) continue;
      for (int64_t b = 0; b < rows_.texts; ++b) {
        const int64_t s = rows_.sequence(patch.variant, b);
        for (int64_t row = offsets_[s]; row < offsets_[s + 1]; ++row) {
          std::ranges::copy(patch.output, &z(row, patch.head, 0));
        }
      }
    }
  }

 private:
  std::vector<Patch> patches_;
  std::span<const int64_t> offsets_;
  std::vector<int64_t> numbers_;
  PatchedRows rows_;
};

}  // namespace headwise
