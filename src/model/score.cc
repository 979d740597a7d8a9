// Scores of tokens.
#include "headwise/model/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "headwise/core/error.h"

namespace headwise {
namespace {

void check_task(const Model& model, Task task) {
  if (model.config().task == task) return;
  throw Error({.what = "the model has no next-token probabilities of this kind",
               .got = std::string(to_string(model.config().task)),
               .expected = std::string(to_string(task))});
}

}  // namespace

std::vector<float> token_nll(const Model& model, View<const float, 2> hidden,
                             std::span<const int32_t> tokens) {
  const auto known = [&](int32_t token) { return token >= 0 && token < model.output_width(); };
  if (std::ssize(tokens) != hidden.extent(0) || !std::ranges::all_of(tokens, known)) {
    throw Error({.what = "the tokens to score are not one id of the vocabulary for each row",
                 .got = fmt::format("{} tokens for {} rows", tokens.size(), hidden.extent(0)),
                 .expected = fmt::format("ids from 0 to {}", model.output_width() - 1)});
  }
  std::vector<double> nll(tokens.size());
  model.output_losses(hidden, tokens, nll);
  return {nll.begin(), nll.end()};
}

std::vector<float> next_token_nll(const Model& model, const TokenBatch& batch,
                                  const ForwardOptions& options) {
  check_task(model, Task::causal_lm);
  const Activations hidden = model.forward(batch, options);
  std::vector<int64_t> rows;  // that predict a token
  std::vector<int32_t> tokens;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    for (int64_t row = batch.offsets[b]; row + 1 < batch.offsets[b + 1]; ++row) {
      rows.push_back(row);
      tokens.push_back(batch.ids[row + 1]);
    }
  }
  const std::vector<float> scored = token_nll(model, gather(hidden.rows, rows).rows, tokens);
  std::vector<float> nll(batch.rows(), std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < rows.size(); ++i) nll[rows[i] + 1] = scored[i];
  return nll;
}

std::vector<float> target_nll(const Model& model, const TokenBatch& source,
                              const TokenBatch& target, const ForwardOptions& options) {
  check_task(model, Task::seq2seq_lm);
  if (!model.config().decoder_start) {
    throw Error({.what = "the config does not say which token a decoder starts with",
                 .where = "decoder_start_token_id",
                 .expected = "a token id"});
  }
  target.check();
  TokenBatch input = target;  // shifted by one
  for (int64_t b = 0; b < target.sequences(); ++b) {
    if (target.offsets[b] == target.offsets[b + 1]) continue;
    std::copy(target.ids.begin() + target.offsets[b],
              target.ids.begin() + target.offsets[b + 1] - 1,
              input.ids.begin() + target.offsets[b] + 1);
    input.ids[target.offsets[b]] = *model.config().decoder_start;
  }
  return token_nll(model, model.forward(source, input, options).rows, target.ids);
}

}  // namespace headwise
