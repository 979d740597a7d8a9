// What a text goes through before it is split: cleaning, case, normal forms, replacements.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "headwise/io/json.h"
#include "text/aligned_text.h"

namespace headwise::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// What the file's "normalizer" describes. Throws Error for a type that is not known.
std::unique_ptr<const Normalizer> make_normalizer(const JsonObject& part);

struct BertOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents{};  // as lowercase
  bool lowercase = true;
};
std::unique_ptr<const Normalizer> make_bert_normalizer(const BertOptions& options);

/// `charsmap` as SentencePiece stores it; `where` names it in messages.
std::unique_ptr<const Normalizer> make_charsmap_normalizer(const std::string& charsmap,
                                                           const std::string& where);

/// NFD, NFC, NFKD or NFKC.
std::unique_ptr<const Normalizer> make_normal_form(bool compatibility, bool composed);

}  // namespace headwise::text
