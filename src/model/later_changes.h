// Changes of heads in attentions behind the first one that a variant changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "model/variant_pass.h"
#include "model/variant_rows.h"

namespace headwise {

/// Puts other outputs in the place of those of heads, in the rows of some variants.
class LaterChanges : public ForwardObserver {
 public:
  struct Change {
    const AttentionSite* site;
    int64_t variant, head;
    std::span<const float> output;
  };

  void add(const Change& change) { changes_.push_back(change); }
  bool any() const { return !changes_.empty(); }

  /// The rows of the next attentions.
  void lay_out(const Sequences& sequences, int64_t texts, int64_t variants, bool by_text) {
    offsets_ = sequences.offsets;
    rows_ = {.texts = texts, .by_text = by_text};
    numbers_.resize(static_cast<size_t>(variants));
    rows_.variants = numbers_;
  }

  void attended(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
                View<float, 3> z, View<const float, 2>) override {
    for (const Change& change : changes_) {
      if (change.site != &site) continue;
      for (int64_t b = 0; b < rows_.texts; ++b) {
        const int64_t s = rows_.sequence(change.variant, b);
        for (int64_t row = offsets_[s]; row < offsets_[s + 1]; ++row) {
          std::ranges::copy(change.output, &z(row, change.head, 0));
        }
      }
    }
  }

 private:
  std::vector<Change> changes_;
  std::span<const int64_t> offsets_;
  std::vector<int64_t> numbers_;
  VariantRows rows_;
};

}  // namespace headwise
