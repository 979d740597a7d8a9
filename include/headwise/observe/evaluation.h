// The evaluation of a model: a loss and its examples.
//
// docs/measures.md says what each loss is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "headwise/text/tokenizer.h"
#include "headwise/train/examples.h"

namespace headwise {

enum class LossTask {
  lm,          // negative log likelihood of the next tokens
  mlm,         // of hidden tokens
  classify,    // of the labels of texts
  translate,   // of the tokens of references
  similarity,  // 1 - Spearman correlation of the cosines of pairs with their scores
  fidelity,    // 1 - cosine of the pooled hidden states with those of the model as it is
};

std::string_view to_string(LossTask task);

/// By its name; throws Error that lists the names.
LossTask loss_task(std::string_view name);
std::vector<std::string_view> loss_task_names();

/// The default loss: lm for causal models, mlm for models with such an output, else fidelity, which
/// needs no labels.
LossTask default_task(const ModelConfig& config);

/// Whether L is Σ loss / Σ tokens.
inline bool scores_tokens(LossTask task) {
  return task == LossTask::lm || task == LossTask::mlm || task == LossTask::translate;
}

struct EvaluationSet {
  LossTask task = LossTask::fidelity;

  /// Examples as training reads them, except that the masks of masked LM are already applied.
  /// Fidelity has texts without labels. For an encoder-decoder it may have targets; the loss then
  /// uses the decoder's hidden states.
  Examples examples{};

  /// Of each example, the positions of its tokens that are scored: the hidden ones, or a sample.
  /// Empty: all that could be.
  std::vector<std::vector<int32_t>> positions{};

  /// Masked LM: so many examples in a row are the same text, each with other tokens hidden.
  int64_t masks = 1;

  /// Translate: the references as they were written, for BLEU; or none.
  std::vector<std::string> references{};

  int64_t size() const { return examples.size(); }
};

/// Every token of a text but the first is scored.
EvaluationSet next_tokens(const TokenBatch& texts);

/// 15 % of the tokens of a text that are not special, at least one of them, are hidden behind the
/// mask token, and scored. A fixed seed chooses them. With several masks, each text comes as often,
/// every time with other tokens hidden; without scored tokens once all have been. Of `masking`,
/// what training does else is not done. Texts of nothing but special tokens are not scored.
EvaluationSet hidden_tokens(const TokenBatch& texts, const Masking& masking, int64_t masks = 1);

/// A set of masked LM, with one mask and all hidden tokens scored, with so many masks instead.
EvaluationSet with_masks(const EvaluationSet& set, const Masking& masking, int64_t masks);

/// Texts without labels.
EvaluationSet unlabelled(const TokenBatch& source, const TokenBatch& target = {});

/// The files of a task: lm, mlm and fidelity a text per line, where empty lines are skipped;
/// classify text<TAB>label, with the labels of the model; similarity text<TAB>text<TAB>score, any
/// number; translate two files, line i of both being a pair. Throws Error for a task that the model
/// has no output for.
EvaluationSet read_evaluation(LossTask task, const Files& files, const Tokenizer& tokenizer,
                              const ModelConfig& config, const ReadOptions& options = {});

/// These examples, by their numbers in the set.
EvaluationSet examples_of(const EvaluationSet& set, std::span<const int64_t> examples);

/// One half chooses heads, the other shows what that costs. A fixed seed draws the halves. Examples
/// of equal tokens, and all masks of a text, stay in the same half; the halves are otherwise about
/// equally large. Both keep the order of the set.
struct SplitExamples {
  EvaluationSet choosing{}, held_out{};
};
SplitExamples split_examples(const EvaluationSet& set);

/// Keeps this share of the scored tokens, at least one, chosen by the seed. Throws Error
/// for losses that are not of tokens, and unless 0 < share <= 1.
void sample_positions(EvaluationSet& set, double share, uint64_t seed);

/// Keeps `count` examples in their order, chosen by the seed, or all if there are fewer.
void sample_examples(EvaluationSet& set, int64_t count, uint64_t seed);

/// The numbers below n that sample_examples keeps, ascending: `count` of them, or all if there are
/// fewer.
std::vector<int64_t> sample(int64_t count, int64_t n, uint64_t seed);

}  // namespace headwise
