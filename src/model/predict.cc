// Predictions from hidden states and the output layer.
#include "headwise/model/predict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "headwise/kernels/softmax.h"
#include "headwise/model/generate.h"
#include "headwise/model/sentence_embedding.h"

namespace headwise {
namespace {

/// What the output layer gives, the default first.
std::vector<std::string_view> tasks_of_output(const ModelConfig& config) {
  switch (config.task) {
    case Task::hidden:
      return {};
    case Task::masked_lm:
      return {"fill", "logits"};
    case Task::causal_lm:
      return {"generate", "nll", "logits"};
    case Task::seq2seq_lm:
      if (config.translates) return {"translate", "generate", "nll", "logits"};
      return {"generate", "translate", "nll", "logits"};
    case Task::classify:
    case Task::classify_tokens:
    case Task::detect:
      return {"classify", "logits"};
    case Task::answer:
      return {"answer", "logits"};
  }
  return {};
}

/// Over the tokens of the context and the first one, which has its share, but begins no span.
std::vector<double> probabilities(View<const float, 2> logits, int column,
                                  std::span<const int8_t> sequence) {
  std::vector<double> result;
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  const auto counts = [&](int64_t row) {
    return sequence.empty() || row == 0 || sequence[row] == 1;
  };
  for (int64_t row = 0; row < logits.extent(0); ++row) {
    if (counts(row)) most = std::max<double>(most, logits(row, column));
  }
  for (int64_t row = 0; row < logits.extent(0); ++row) {
    result.push_back(counts(row) ? std::exp(logits(row, column) - most) : 0);
    sum += result.back();
  }
  for (double& value : result) value /= sum;
  if (!sequence.empty()) result.front() = 0;
  return result;
}

}  // namespace

std::vector<std::string_view> run_task_names() {
  return {"hidden",   "logits", "embed",    "nll",      "fill",
          "classify", "answer", "generate", "translate"};
}

std::vector<std::string_view> run_tasks(const ModelConfig& config) {
  std::vector<std::string_view> tasks = tasks_of_output(config);
  tasks.insert(tasks.end(), {"embed", "hidden"});
  return tasks;
}

std::string_view default_run_task(const Model& model) {
  if (SentencePooling::find(model.folder())) return "embed";
  const std::vector<std::string_view> tasks = tasks_of_output(model.config());
  return tasks.empty() ? "hidden" : tasks.front();
}

std::vector<int32_t> largest(std::span<const float> row, int64_t count) {
  std::vector<int32_t> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto middle = order.begin() + std::min<int64_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), middle, order.end(), [&](int32_t a, int32_t b) {
    return row[a] > row[b] || (row[a] == row[b] && a < b);
  });
  order.erase(middle, order.end());
  return order;
}

std::vector<int32_t> largest_of_both(std::span<const float> before, std::span<const float> after,
                                     int64_t count) {
  std::vector<int32_t> all = largest(before, count);
  for (const int32_t one : largest(after, count)) {
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  }
  return all;
}

Activations token_probabilities(const Model& model, View<const float, 2> hidden,
                                std::span<const int64_t> rows) {
  Activations out = model.output(gather(hidden, rows).rows);
  softmax(out.rows);
  return out;
}

Activations next_token_probabilities(const Model& model, const TokenBatch& texts,
                                     const ForwardOptions& options) {
  const ModelConfig& config = model.config();
  std::vector<int64_t> rows(texts.sequences());
  if (config.encoder_decoder()) {
    const int32_t first = decoder_start(config, read_generation(model.folder(), config));
    TokenBatch start;
    for (int64_t b = 0; b < texts.sequences(); ++b) start.add({&first, 1});
    std::iota(rows.begin(), rows.end(), 0);
    return token_probabilities(model, model.forward(texts, start, options).rows, rows);
  }
  for (int64_t b = 0; b < texts.sequences(); ++b) rows[b] = texts.offsets[b + 1] - 1;
  return token_probabilities(model, model.forward(texts, options).rows, rows);
}

std::vector<std::string> label_names(const ModelConfig& config) {
  if (config.task == Task::detect) return {"original", "replaced"};
  return config.labels;
}

bool labels_tokens(const ModelConfig& config) {
  return config.task == Task::detect || config.task == Task::classify_tokens;
}

LabelScores classify(const Model& model, const TokenBatch& texts, const ForwardOptions& options) {
  const ModelConfig& config = model.config();
  const bool detects = config.task == Task::detect;
  const Activations hidden = model.forward(texts, options);
  LabelScores result{.rows = model.output_rows(texts.offsets)};
  const Activations logits = model.output(gather(hidden.rows, result.rows).rows);
  result.scores = Activations(logits.rows.extent(0), std::ssize(label_names(config)));
  const View<float, 2> scores = result.scores.rows;
  for (int64_t row = 0; row < logits.rows.extent(0); ++row) {
    for (int64_t label = 0; label < logits.rows.extent(1); ++label) {
      const float logit = logits.rows(row, label);
      const bool each = detects || config.multi_label;
      scores(row, detects ? 1 : label) = each ? 1 / (1 + std::exp(-logit)) : logit;
    }
    if (detects) scores(row, 0) = 1 - scores(row, 1);
  }
  if (!detects && !config.multi_label && !config.regression) softmax(scores);
  return result;
}

std::vector<int32_t> chosen_labels(const ModelConfig& config, std::span<const float> scores) {
  const bool of_text = config.task == Task::classify;
  if (of_text && config.regression) return {};
  if (!of_text || !config.multi_label) return largest(scores, 1);
  std::vector<int32_t> labels;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] >= 0.5f) labels.push_back(static_cast<int32_t>(i));
  }
  return labels;
}

AnswerSpan find_answer(View<const float, 2> logits, std::span<const int8_t> sequence) {
  constexpr int64_t kMostTokens = 15;
  const std::vector<double> first = probabilities(logits, 0, sequence);
  const std::vector<double> last = probabilities(logits, 1, sequence);
  AnswerSpan best;
  for (int64_t i = 0; i < std::ssize(first); ++i) {
    for (int64_t j = i; j < std::min(std::ssize(first), i + kMostTokens); ++j) {
      if (first[i] * last[j] > best.score) best = {i, j, first[i] * last[j]};
    }
  }
  return best;
}

double RowsChange::relative_norm() const { return std::sqrt(squares / before_squares); }
double RowsChange::cosine() const { return product / std::sqrt(before_squares * after_squares); }

void RowsChange::add(const RowsChange& other) {
  squares += other.squares;
  before_squares += other.before_squares;
  after_squares += other.after_squares;
  product += other.product;
  largest = std::max(largest, other.largest);
}

RowsChange change_of(View<const float, 2> before, View<const float, 2> after) {
  RowsChange result;
  for (int64_t row = 0; row < before.extent(0); ++row) {
    for (int64_t column = 0; column < before.extent(1); ++column) {
      const double a = before(row, column), b = after(row, column);
      result.squares += (b - a) * (b - a);
      result.before_squares += a * a;
      result.after_squares += b * b;
      result.product += a * b;
      if (std::abs(b - a) <= result.largest) continue;
      result.largest = std::abs(b - a);
      result.row = row;
    }
  }
  return result;
}

}  // namespace headwise
