// Which tokens of a corpus are special, and which are punctuation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "observe/head_metric.h"

namespace headwise {

class TokenKinds {
 public:
  enum class Marks { unknown, known };  // whether punctuation is asked for

  explicit TokenKinds(const MetricContext& context, Marks marks = Marks::unknown);

  /// [tokens]: 1 where a token is special: put there by the tokenizer's template, or one of the
  /// special tokens of the tokenizer or the model. `tokens` are the batch's source or target.
  std::vector<uint8_t> special(const MetricBatch& batch, const TokenBatch& tokens) const;

  /// 1 where a token is one punctuation mark. Nothing is known without a tokenizer.
  bool knows_punctuation() const { return !punctuation_.empty(); }
  std::vector<uint8_t> punctuation(const TokenBatch& tokens) const;

 private:
  const MetricContext& context_;
  std::vector<uint8_t> special_, punctuation_;  // by id
};

}  // namespace headwise
