// What a model says about texts: the tokens that it finds probable, labels, answers; and how far
// that is from what another model says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/model.h"

namespace headwise {

/// What models can be asked for: hidden, logits, embed, nll, fill, classify, answer, generate,
/// translate.
std::vector<std::string_view> run_task_names();
/// Those that a model can do.
std::vector<std::string_view> run_tasks(const ModelConfig& config);
/// What its folder is for: embed for sentence encoders, else what its output layer gives, else
/// hidden.
std::string_view default_run_task(const Model& model);

/// Where the largest numbers of a row are, the largest first; of equal ones the first.
std::vector<int32_t> largest(std::span<const float> row, int64_t count);

/// The probabilities of all tokens by the output layer, [rows, V], at these rows of hidden states.
Activations token_probabilities(const Model& model, View<const float, 2> hidden,
                                std::span<const int64_t> rows);

/// Those of the token that comes next, [B, V]: after the last one of each text; of
/// encoder-decoders the first that the decoder writes. No text is empty unless it is a source.
Activations next_token_probabilities(const Model& model, const TokenBatch& texts,
                                     const ForwardOptions& options = {});

/// The labels that a model gives; those of a detector are "original" and "replaced".
std::vector<std::string> label_names(const ModelConfig& config);
/// Whether each token gets a label of its own, or the text one.
bool labels_tokens(const ModelConfig& config);

struct LabelScores {
  std::vector<int64_t> rows{};  // of the batch: all tokens, or one for each text with tokens
  Activations scores{};         // [rows, labels]: probabilities; of regression, the values
};
LabelScores classify(const Model& model, const TokenBatch& texts,
                     const ForwardOptions& options = {});

/// The labels that a row of scores stands for: those of at least one half if a text may have
/// several, none of regression, else the one with the largest score.
std::vector<int32_t> chosen_labels(const ModelConfig& config, std::span<const float> scores);

/// The answer to a question, in tokens of the text that was read.
struct AnswerSpan {
  int64_t first = 0, last = 0;
  double score = 0;  // the product of the probabilities that it begins and ends there
};
/// The most probable span of at most 15 tokens, as the pipeline of transformers chooses it, from
/// the output [tokens, 2] for one text. `sequence` is that of its Encoding: the answer is in the
/// second text, and the first token stands for no answer. Empty: it is in any tokens.
AnswerSpan find_answer(View<const float, 2> logits, std::span<const int8_t> sequence = {});

/// How far rows of numbers are from what they were.
struct RowsChange {
  double squares = 0, before_squares = 0, after_squares = 0, product = 0;
  double largest = 0;  // of a number
  int64_t row = 0;     // that has it

  double relative_norm() const;  // of the change
  double cosine() const;
  /// Over more rows; `row` stays.
  void add(const RowsChange& other);
};
RowsChange change_of(View<const float, 2> before, View<const float, 2> after);

/// The largest of both, those of `before` first.
std::vector<int32_t> largest_of_both(std::span<const float> before, std::span<const float> after,
                                     int64_t count);

}  // namespace headwise
