// What tests of training data share: small tokenizers, the models they fit, and files.
#pragma once

#include <string>
#include <vector>

#include "headwise/text/tokenizer.h"
#include "headwise/text/train_bpe.h"
#include "headwise/train/examples.h"
#include "io/io_testing.h"

namespace headwise {

/// A tokenizer whose tokens are special ones and bytes, for texts whose ids can be told by hand.
inline Tokenizer byte_tokenizer(BpeSettings settings) {
  const TemporaryFolder folder;
  settings.vocabulary = 256 + std::ssize(settings.special);
  BpeTrainer().train(settings, folder.path());
  return Tokenizer::load(folder.path());
}

/// A model of any architecture that has this tokenizer's tokens.
inline ModelConfig model_of(const Tokenizer& tokenizer, int64_t positions = 0) {
  return {.vocabulary = tokenizer.size(),
          .decoder_vocabulary = tokenizer.size(),
          .max_positions = positions,
          .decoder_start = tokenizer.special_tokens().pad,
          .eos = {tokenizer.special_tokens().eos.value_or(0)}};
}

/// The ids of the bytes of a text.
inline std::vector<int32_t> bytes(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special = false}).ids;
}

inline std::vector<int32_t> text_at(const TokenBatch& texts, int64_t index) {
  return {texts.ids.begin() + texts.offsets[static_cast<size_t>(index)],
          texts.ids.begin() + texts.offsets[static_cast<size_t>(index) + 1]};
}

}  // namespace headwise
