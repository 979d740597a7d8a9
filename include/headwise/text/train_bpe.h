// A byte-level BPE vocabulary trained on text, written as a tokenizer of a model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

/// What a tokenizer has beside the pieces of words.
struct BpeSettings {
  int64_t vocabulary = 8000;           // tokens in all: special ones, 256 bytes, and merged ones
  int64_t min_frequency = 2;           // pairs that are rarer are not merged
  std::vector<std::string> special{};  // ids 0, 1, …

  /// Which of them is what; empty: none is.
  struct Roles {
    std::string unk{}, bos{}, eos{}, cls{}, sep{}, pad{}, mask{};
  } roles{};

  /// What is put around one text ($A) and two ($A, $B): "[CLS] $A [SEP]"; a type other than 0 is
  /// written behind a colon: "$B:1". Empty: nothing.
  std::string single{};
  std::string pair{};

  int64_t longest_text = 0;  // for transformers, in tokens; 0: not said
};

/// The usual special tokens and template of "bert", "gpt2", "llama" and "marian".
BpeSettings bpe_settings(std::string_view architecture);

/// Counts the words of texts, then joins the most frequent pairs of tokens within them, one after
/// the other, as the `tokenizers` package does it.
class BpeTrainer {
 public:
  BpeTrainer();
  BpeTrainer(BpeTrainer&&) noexcept;
  ~BpeTrainer();

  /// A text, or a part of one that does not end in a word.
  void add(std::string_view text);

  /// Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json into a folder that is
  /// there. Has fewer tokens than asked for if the texts do not give more. Throws Error for
  /// settings that contradict each other.
  void train(const BpeSettings& settings, const std::filesystem::path& folder) const;

 private:
  struct Words;
  std::unique_ptr<Words> words_;
};

}  // namespace headwise
