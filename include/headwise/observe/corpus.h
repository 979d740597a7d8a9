// The texts that heads are measured on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/text/probes.h"
#include "headwise/text/tokenizer.h"
#include "headwise/text/treebank.h"

namespace headwise {

/// A text as the model reads it, with what is known about it.
struct ObservedText {
  std::vector<int32_t> ids{}, types{};  // types empty: all 0
  std::vector<int32_t> decoder_ids{};   // of encoder-decoders
  /// The source tokens that each of the decoder's is aligned with, ascending; empty: not known.
  std::vector<std::vector<int32_t>> aligned{};
  Encoding encoding{};                    // of the text; empty where only ids were given
  const TreeSentence* tree = nullptr;     // or none
  const CoreferenceItem* item = nullptr;  // or none
  const FieldItem* field = nullptr;       // or none
  const RareItem* rare = nullptr;         // or none
};

/// Texts that share the same metrics.
struct ObservedCorpus {
  std::string name{};
  std::vector<ObservedText> texts{};

  int64_t tokens() const {
    int64_t count = 0;
    for (const ObservedText& text : texts) count += std::ssize(text.ids);
    return count;
  }
};

}  // namespace headwise
