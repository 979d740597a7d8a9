// Training examples: files read line by line into token ids, held in memory.
//
// Files are plain or gzip. Everything that is wrong with them throws Error with the file and the
// line: columns that are missing, files of different lengths, texts that are empty or too long,
// unknown labels, token ids that the model does not have. See docs/data.md for the formats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/text/tokenizer.h"
#include "headwise/text/train_bpe.h"
#include "headwise/train/batch.h"

namespace headwise {

/// Masked LM: which tokens are hidden is drawn anew for every epoch, when batches are made.
struct Masking {
  float share = 0.15f;             // of the tokens that are not special
  int32_t mask = 0;                // the token that hides one: 80 % of the time
  std::vector<int32_t> drawn{};    // the tokens that stand in for one: 10 %; else it stays
  std::vector<bool> is_special{};  // by id: never hidden
};

/// Which tokens of a tokenizer may be hidden, and what hides them. Throws Error if it has no mask.
Masking masking_of(const Tokenizer& tokenizer, const ModelConfig& config);

struct Examples {
  /// All examples as one batch. Masked LM: without labels.
  TrainingBatch all{};
  int64_t texts_each = 1;  // texts of all.source per example: 2 for similarity
  std::optional<Masking> masking{};

  int64_t size() const { return all.source.sequences() / texts_each; }
  int64_t tokens(int64_t example) const;  // its rows of source and target
};

struct ReadOptions {
  int64_t length = 0;     // the most tokens of a text; 0: the model's positions
  bool truncate = false;  // cut texts that are longer, instead of refusing them
  /// Called now and then with the number of lines read so far; may throw to stop.
  std::function<void(int64_t lines)> progress{};
};

using Files = std::vector<std::filesystem::path>;

/// Whether each line is a document of its own, or each file.
enum class Documents { lines, files };

/// Documents one after the other, each behind the tokenizer's first token if its template puts it,
/// and followed by its end token if it has one; cut into blocks of options.length tokens. Every
/// token is scored but the very first. Empty lines are no documents.
Examples read_causal_lm(const Files& files, Documents documents, const Tokenizer& tokenizer,
                        const ModelConfig& config, const ReadOptions& options = {});

/// A text per line; lines without anything to hide are skipped.
Examples read_masked_lm(const Files& files, const Tokenizer& tokenizer, const ModelConfig& config,
                        const ReadOptions& options = {});

/// Lines "text<TAB>label". Label i is labels[i]; if `labels` is empty, it becomes the set of those
/// found, sorted, at least two; otherwise others are refused.
Examples read_classification(const Files& files, std::vector<std::string>& labels,
                             const Tokenizer& tokenizer, const ModelConfig& config,
                             const ReadOptions& options = {});

/// Lines "text<TAB>text<TAB>score", the score being the wanted cosine, from -1 to 1.
Examples read_similarity(const Files& files, const Tokenizer& tokenizer, const ModelConfig& config,
                         const ReadOptions& options = {});

/// Line i of both files is a pair. The decoder reads its start token and the target, and should say
/// the target and the end token.
Examples read_translation(const std::filesystem::path& source, const std::filesystem::path& target,
                          const Tokenizer& tokenizer, const ModelConfig& config,
                          const ReadOptions& options = {});

/// What a vocabulary is trained on: the same texts as read_causal_lm reads. Of the options only
/// `progress` counts.
void add_words(const Files& files, Documents documents, BpeTrainer& trainer,
               const ReadOptions& options = {});

/// The texts of tab-separated lines: their first `columns` columns.
void add_words_of_columns(const Files& files, int64_t columns, BpeTrainer& trainer,
                          const ReadOptions& options = {});

}  // namespace headwise
