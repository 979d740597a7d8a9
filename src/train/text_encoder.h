// Texts to token ids that a model takes, or an Error that says which text is at fault.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/train/examples.h"
#include "text/line_reader.h"

namespace headwise {

class TextEncoder {
 public:
  TextEncoder(const Tokenizer& tokenizer, const ModelConfig& config, const ReadOptions& options);

  /// A text with what the template puts around it.
  std::vector<int32_t> encode(std::string_view text, const LineReader& reader) const;

  /// A text without it, for a decoder: one token less fits, since it reads its start token first.
  std::vector<int32_t> encode_target(std::string_view text, const LineReader& reader) const;

  /// A part of a text of any length, without it.
  std::vector<int32_t> encode_part(std::string_view text, const LineReader& reader) const;

  int64_t most() const { return most_; }  // tokens of a text; 0: any number

 private:
  std::vector<int32_t> encode(std::string_view text, EncodeOptions params, int64_t most,
                              int64_t vocabulary, const LineReader& reader) const;

  const Tokenizer& tokenizer_;
  const ModelConfig& config_;
  bool truncate_;
  int64_t most_;
};

}  // namespace headwise
