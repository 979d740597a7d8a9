// Cuts examples into batches, and scores them by their hidden states.
#include "observe/loss_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/kernels/softmax.h"

namespace headwise {
namespace {

std::span<const int32_t> text_of(const std::vector<int32_t>& tokens, const TokenBatch& texts,
                                 int64_t text) {
  if (tokens.empty()) return {};
  return std::span(tokens).subspan(texts.offsets[text],
                                   texts.offsets[text + 1] - texts.offsets[text]);
}

Task output_of(LossTask task) {
  switch (task) {
    case LossTask::lm:
      return Task::causal_lm;
    case LossTask::mlm:
      return Task::masked_lm;
    case LossTask::classify:
      return Task::classify;
    case LossTask::translate:
      return Task::seq2seq_lm;
    default:
      return Task::hidden;
  }
}

void check_count(const char* what, int64_t got, int64_t expected) {
  if (got == expected) return;
  throw Error({.what = fmt::format("an evaluation has not {}", what),
               .got = fmt::format("{}", got),
               .expected = fmt::format("{}", expected)});
}

}  // namespace

void add_text(const TokenBatch& from, int64_t text, TokenBatch& to) {
  to.add(text_of(from.ids, from, text), text_of(from.types, from, text));
}

void check_output(LossTask task, const ModelConfig& config) {
  const Task needed = output_of(task);
  const bool scores_numbers =
      task == LossTask::classify && (config.regression || config.multi_label);
  if (needed == Task::hidden || (config.task == needed && !scores_numbers)) return;
  throw Error(
      {.what = fmt::format("the model has no output for the loss {}", to_string(task)),
       .got = std::string(to_string(config.task)) +
              (scores_numbers ? config.regression ? ", of numbers" : ", of several labels" : ""),
       .expected = std::string(to_string(needed)),
       .hint = "fidelity needs no output layer"});
}

double norm_of(View<const float, 2> x, int64_t i) {
  double squares = 0;
  for (int64_t c = 0; c < x.extent(1); ++c) squares += double{x(i, c)} * x(i, c);
  return std::max(std::sqrt(squares), 1e-12);
}

double cosine_distance(View<const float, 2> a, int64_t i, View<const float, 2> b, int64_t j) {
  const double norm_a = norm_of(a, i), norm_b = norm_of(b, j);
  double squares = 0;
  for (int64_t c = 0; c < a.extent(1); ++c) {
    const double difference = a(i, c) / norm_a - b(j, c) / norm_b;
    squares += difference * difference;
  }
  return squares / 2;
}

ExampleScorer::ExampleScorer(const Model& model, const SentencePooling& pooling,
                             const EvaluationSet& set)
    : model_(model), pooling_(pooling), set_(set), tokens_(set.size(), 1) {
  check();
  if (!scores_tokens(set.task)) return;
  const TrainingBatch& all = set.examples.all;
  const TokenBatch& texts = set.task == LossTask::translate ? all.target : all.source;
  for (int64_t x = 0; x < set.size(); ++x) {
    tokens_[x] = texts.offsets[x + 1] - texts.offsets[x] -
                 std::count(all.labels.begin() + texts.offsets[x],
                            all.labels.begin() + texts.offsets[x + 1], kIgnoreIndex);
  }
}

void ExampleScorer::check() const {
  const TrainingBatch& all = set_.examples.all;
  check_output(set_.task, model_.config());
  all.source.check();
  all.target.check();
  const bool pairs = set_.task == LossTask::similarity;
  if (set_.examples.texts_each != (pairs ? 2 : 1)) {
    throw Error({.what = "the texts of an evaluation do not come as its loss has them",
                 .got = fmt::format("{} each", set_.examples.texts_each),
                 .expected = fmt::format("{}", pairs ? 2 : 1)});
  }
  if (set_.size() == 0) throw Error({.what = "an evaluation has no examples"});
  if (set_.task == LossTask::translate || all.target.sequences() > 0) {
    check_count("as many targets as sources", all.target.sequences(), all.source.sequences());
  }
  if (all.target.sequences() > 0 && !model_.config().encoder_decoder()) {
    throw Error({.what = "targets were given to a model without encoder and decoder",
                 .got = model_.config().model_type,
                 .expected = "marian or t5"});
  }
  if (pairs) check_count("one score per pair", std::ssize(all.scores), set_.size());
  if (!pairs && set_.task != LossTask::fidelity) {
    const int64_t expected = set_.task == LossTask::classify    ? set_.size()
                             : set_.task == LossTask::translate ? all.target.rows()
                                                                : all.source.rows();
    check_count("the labels that its loss needs", std::ssize(all.labels), expected);
    const bool may_ignore = set_.task != LossTask::classify;
    for (const int32_t label : all.labels) {
      if (label >= 0 && label < model_.output_width()) continue;
      if (may_ignore && label == kIgnoreIndex) continue;
      throw Error({.what = "a label of an evaluation is not one of the model's",
                   .got = fmt::format("{}", label),
                   .expected = fmt::format("0 to {}", model_.output_width() - 1)});
    }
  }
  if (scores_tokens(set_.task)) {
    if (std::ranges::count(all.labels, kIgnoreIndex) < std::ssize(all.labels)) return;
    throw Error(
        {.what = "an evaluation scores no tokens", .expected = "texts with something to predict"});
  }
  const TokenBatch& texts = all.target.sequences() > 0 ? all.target : all.source;
  for (int64_t b = 0; b < texts.sequences(); ++b) {
    if (texts.offsets[b] < texts.offsets[b + 1]) continue;
    throw Error(
        {.what = "a text of an evaluation has no tokens", .where = fmt::format("text {}", b)});
  }
}

int64_t ExampleScorer::rows_of(int64_t example) const {
  const int64_t each = set_.examples.texts_each;
  const auto rows = [&](const TokenBatch& texts, int64_t first, int64_t count) {
    return texts.sequences() == 0 ? 0 : texts.offsets[first + count] - texts.offsets[first];
  };
  return std::max(rows(set_.examples.all.source, example * each, each),
                  rows(set_.examples.all.target, example, 1));
}

WorkTokens ExampleScorer::work_tokens(int64_t example) const {
  if (tokens_[example] == 0) return {};
  const TrainingBatch& all = set_.examples.all;
  const int64_t each = set_.examples.texts_each, first = example * each;
  WorkTokens tokens{.source = all.source.offsets[first + each] - all.source.offsets[first],
                    .read = rows_read(example)};
  if (all.target.sequences() > 0) {
    tokens.target = all.target.offsets[example + 1] - all.target.offsets[example];
  }
  if (scores_tokens(set_.task) || set_.task == LossTask::classify) tokens.scored = tokens.read;
  return tokens;
}

/// Of the last hidden states, those that its loss reads.
int64_t ExampleScorer::rows_read(int64_t example) const {
  if (scores_tokens(set_.task)) return tokens_[example];
  const int64_t each = set_.examples.texts_each;
  if (set_.task == LossTask::classify || pooling_.reads() != SentencePooling::Reads::all) {
    return each;
  }
  const TrainingBatch& all = set_.examples.all;
  const TokenBatch& last = all.target.sequences() > 0 ? all.target : all.source;
  return last.offsets[(example + 1) * each] - last.offsets[example * each];
}

/// Angles of rotary positions that are scaled to the length of a text are of that text alone.
bool ExampleScorer::stands_alone(int64_t example) const {
  const ModelConfig& config = model_.config();
  return config.rotary.dynamic_factor > 0 && rows_of(example) > config.max_positions;
}

std::vector<std::vector<int64_t>> ExampleScorer::cut(std::span<const int64_t> examples,
                                                     int64_t rows) const {
  std::vector<std::vector<int64_t>> batches;
  int64_t used = 0;
  bool closed = true;
  for (const int64_t x : examples) {
    if (tokens_[x] == 0) continue;
    const int64_t more = rows_of(x);
    const bool alone = stands_alone(x);
    if (closed || alone || used + more > rows) {
      batches.emplace_back();
      used = 0;
    }
    batches.back().push_back(x);
    used += more;
    closed = alone;
  }
  return batches;
}

LossBatch ExampleScorer::batch(std::span<const int64_t> examples) const {
  const TrainingBatch& all = set_.examples.all;
  LossBatch batch{.examples = {examples.begin(), examples.end()}};
  for (const int64_t x : examples) {
    for (int64_t i = 0; i < set_.examples.texts_each; ++i) {
      add_text(all.source, x * set_.examples.texts_each + i, batch.source);
    }
    if (all.target.sequences() > 0) add_text(all.target, x, batch.target);
  }
  add_rows(batch);
  return batch;
}

void ExampleScorer::add_rows(LossBatch& batch) const {
  const TrainingBatch& all = set_.examples.all;
  const TokenBatch& last = batch.last();
  if (set_.task == LossTask::classify) {
    batch.rows = model_.output_rows(last.offsets);
    for (const int64_t x : batch.examples) batch.targets.push_back(all.labels[x]);
    return;
  }
  if (scores_tokens(set_.task)) {
    const TokenBatch& texts = all.target.sequences() > 0 ? all.target : all.source;
    int64_t row = 0;
    for (const int64_t x : batch.examples) {
      for (int64_t from = texts.offsets[x]; from < texts.offsets[x + 1]; ++from, ++row) {
        if (all.labels[from] == kIgnoreIndex) continue;
        batch.rows.push_back(row);
        batch.targets.push_back(all.labels[from]);
      }
    }
    return;
  }
  for (int64_t b = 0; b < last.sequences(); ++b) {
    const int64_t begin = last.offsets[b], end = last.offsets[b + 1];
    switch (pooling_.reads()) {
      case SentencePooling::Reads::all:
        for (int64_t row = begin; row < end; ++row) batch.rows.push_back(row);
        break;
      case SentencePooling::Reads::first:
        batch.rows.push_back(begin);
        break;
      case SentencePooling::Reads::last:
        batch.rows.push_back(end - 1);
        break;
    }
  }
}

std::vector<double> ExampleScorer::values(const LossBatch& batch, const PatchedRows& rows) const {
  const int64_t V = std::ssize(rows.variants), n = std::ssize(batch.examples);
  std::vector<double> values(V * n);
  if (set_.task == LossTask::similarity) {
    const Activations embeddings = embed(rows);
    for (int64_t v = 0; v < V; ++v) {
      for (int64_t i = 0; i < n; ++i) {
        values[v * n + i] = 1 - cosine_distance(embeddings.rows, rows.sequence(v, 2 * i),
                                                embeddings.rows, rows.sequence(v, 2 * i + 1));
      }
    }
    return values;
  }
  std::vector<int64_t> begins = {0};  // of the targets of each text
  for (int64_t b = 0; b < rows.texts; ++b) {
    const int64_t s = rows.sequence(0, b);
    begins.push_back(begins.back() + rows.offsets[s + 1] - rows.offsets[s]);
  }
  std::vector<int32_t> targets(rows.rows.extent(0));
  std::vector<double> losses(targets.size());
  for (int64_t v = 0; v < V; ++v) {
    for (int64_t b = 0; b < rows.texts; ++b) {
      std::copy(batch.targets.begin() + begins[b], batch.targets.begin() + begins[b + 1],
                targets.begin() + rows.offsets[rows.sequence(v, b)]);
    }
  }
  model_.output_losses(rows.rows, targets, losses);
  for (int64_t v = 0; v < V; ++v) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t s = rows.sequence(v, i);
      for (int64_t at = rows.offsets[s]; at < rows.offsets[s + 1]; ++at) {
        values[v * n + i] += losses[at];
      }
    }
  }
  return values;
}

Activations ExampleScorer::embed(const PatchedRows& rows) const {
  return pooling_.embed(rows.rows, rows.offsets);
}

std::vector<double> ExampleScorer::distances(View<const float, 2> embeddings,
                                             View<const float, 2> reference,
                                             const PatchedRows& rows) const {
  const int64_t V = std::ssize(rows.variants);
  std::vector<double> values(V * rows.texts);
  for (int64_t v = 0; v < V; ++v) {
    for (int64_t b = 0; b < rows.texts; ++b) {
      values[v * rows.texts + b] = cosine_distance(embeddings, rows.sequence(v, b), reference, b);
    }
  }
  return values;
}

std::vector<int32_t> ExampleScorer::labels(View<const float, 2> rows) const {
  std::vector<int32_t> labels(rows.extent(0));
  argmax(model_.output(rows).rows, labels);
  return labels;
}

}  // namespace headwise
