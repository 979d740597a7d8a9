// Text to token ids and back, as the `tokenizers` package does it, from the files of a model
// folder.
//
// The text may hold any bytes: those that are no UTF-8 are read as U+FFFD each, and count as one
// byte and one code point in the offsets. A tokenizer may be used by several threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

struct TokenSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// One entry per token in every vector.
struct Encoding {
  std::vector<int32_t> ids{};
  std::vector<int32_t> type_ids{};
  std::vector<int32_t> words{};    // which word of its text; -1 for what the template put
  std::vector<uint8_t> special{};  // 1 for what the template or padding put
  std::vector<TokenSpan> bytes{};  // where in its text
  std::vector<TokenSpan> code_points{};
  std::vector<int8_t> sequence{};  // 0: first text, 1: second, -1: put by the template
};

struct EncodeOptions {
  bool add_special = true;
  std::optional<int64_t> truncate{};  // at most so many tokens, the template's included
  std::optional<int64_t> pad{};       // at least so many tokens
  bool target = false;                // the target language of a model with two (Marian)
};

class Tokenizer {
 public:
  struct SpecialTokens {
    std::optional<int32_t> unk{}, bos{}, eos{}, cls{}, sep{}, pad{}, mask{};
  };

  /// From a folder's tokenizer.json; else from vocab.txt, vocab.json and merges.txt,
  /// tokenizer.model, spiece.model, sentencepiece.bpe.model, or Marian's source.spm, target.spm and
  /// vocab.json. Throws Error if there is none or it is not understood.
  static Tokenizer load(const std::filesystem::path& folder);

  /// The same, but nothing if the folder holds no tokenizer.
  static std::optional<Tokenizer> find(const std::filesystem::path& folder);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  Encoding encode(std::string_view first, std::string_view second,
                  const EncodeOptions& options = {}) const;

  /// Ids without a token are left out. Special tokens are skipped by what they are; the tokenizers
  /// package goes by their text, and keeps one whose normalized text differs.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  int64_t size() const;                 // the largest id + 1
  std::string token(int32_t id) const;  // as stored: "##ing", "Ġthe", "▁a"; empty if there is none
  std::optional<int32_t> id(std::string_view token) const;
  bool is_special(int32_t id) const;
  /// Where ids are special, ascending.
  std::vector<int64_t> special_positions(std::span<const int32_t> ids) const;
  const SpecialTokens& special_tokens() const;
  std::string kind() const;  // "WordPiece", "BPE", "byte-level BPE", "Unigram", "SentencePiece", …

  class Impl;  // only the library knows it

 private:
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace headwise
