// How tokens become text again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "headwise/io/json.h"

namespace headwise::text {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// What the file's "decoder" describes. Throws Error for a type that is not known.
std::unique_ptr<const Decoder> make_decoder(const JsonObject& part);

/// What transformers does to a decoded text where clean_up_tokenization_spaces is set.
std::string without_tokenization_spaces(std::string text);

}  // namespace headwise::text
