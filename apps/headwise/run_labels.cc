// Tasks that give labels and words: classification of texts and tokens, masked words, answers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/core/error.h"
#include "headwise/kernels/softmax.h"
#include "run_task.h"

namespace headwise::program {
namespace {

std::string bar(float share) {
  return std::string(static_cast<size_t>(std::lround(20 * std::clamp(share, 0.f, 1.f))), '#');
}

class Fill : public RunTask {
 public:
  Fill(const Session& session, const RunOptions& options)
      : session_(session), top_(options.top.value_or(kTop)) {
    if (session.tokenizer() != nullptr) mask_ = session.tokenizer()->special_tokens().mask;
    if (options.mask) mask_ = options.mask;
    if (mask_) return;
    throw Error({.what = "the mask token is not known",
                 .where = session.model().folder().string(),
                 .expected = "a tokenizer with a mask token",
                 .hint = "give its id: --mask 103"});
  }

  std::optional<int32_t> mask() const override { return mask_; }

  void run(const Batch& batch, Results& results) override {
    std::vector<int64_t> masks;
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const auto before = masks.size();
      for (int64_t row = batch.tokens.offsets[b]; row < batch.tokens.offsets[b + 1]; ++row) {
        if (batch.tokens.ids[row] == *mask_) masks.push_back(row);
      }
      if (masks.size() == before) refuse(batch.inputs[b]);
    }
    const Activations hidden = session_.model().forward(batch.tokens, session_.forward());
    const Activations out = session_.model().output(gather(hidden.rows, masks).rows);
    softmax(out.rows);
    results.keep(out.rows);
    int64_t at = 0;
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      open(batch.inputs[b], results);
      for (; at < std::ssize(masks) && masks[at] < batch.tokens.offsets[b + 1]; ++at) {
        add(masks[at] - batch.tokens.offsets[b],
            {&out.rows(at, 0), static_cast<size_t>(out.rows.extent(1))}, results);
      }
      if (!results.is_json()) continue;
      results.json.end_array();
      results.end();
    }
  }

 private:
  [[noreturn]] void refuse(const Input& input) const {
    throw Error({.what = "there is no mask to fill",
                 .where = input.where,
                 .got = fmt::format("\"{}\"", caption(session_, input)),
                 .expected = fmt::format("a text with {}", session_.tokens({&*mask_, 1}).front())});
  }

  void open(const Input& input, Results& results) const {
    if (results.is_json()) {
      results.begin(input);
      results.json.key("fill");
      results.json.begin_array();
    } else {
      results.text += caption(session_, input) + "\n";
    }
  }

  void add(int64_t position, std::span<const float> probabilities, Results& results) const {
    if (results.is_json()) {
      results.json.begin_object();
      results.json.field("position", position);
      results.json.key("candidates");
      results.json.begin_array();
    } else {
      results.text += fmt::format("  token {}\n", position);
    }
    for (const int32_t id : largest(probabilities, top_)) {
      const std::string token = session_.tokens({&id, 1}).front();
      if (!results.is_json()) {
        results.text += fmt::format("    {}{:>8.2f} %  {}\n", padded(token, 16),
                                    100 * probabilities[id], bar(probabilities[id]));
        continue;
      }
      results.json.begin_object();
      results.json.field("token", token);
      results.json.field("id", id);
      results.json.field("probability", probabilities[id]);
      results.json.end_object();
    }
    if (!results.is_json()) return;
    results.json.end_array();
    results.json.end_object();
  }

  const Session& session_;
  int64_t top_;
  std::optional<int32_t> mask_;
};

/// Scores of texts or of their tokens, from logits, by what the config says about the labels.
class Classify : public RunTask {
 public:
  explicit Classify(const Session& session)
      : session_(session), detect_(session.config().task == Task::detect) {
    labels_ = detect_ ? std::vector<std::string>{"original", "replaced"} : session.config().labels;
  }

  void run(const Batch& batch, Results& results) override {
    const Activations hidden = session_.model().forward(batch.tokens, session_.forward());
    const std::vector<int64_t> rows = session_.model().output_rows(batch.tokens.offsets);
    const Activations logits = session_.model().output(gather(hidden.rows, rows).rows);
    const Activations scores = scores_of(logits.rows);
    results.keep(scores.rows);
    size_t at = 0;
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const size_t begin = at;
      while (at < rows.size() && rows[at] < batch.tokens.offsets[b + 1]) ++at;
      const View<const float, 2> own =
          scores.rows.rows(static_cast<int64_t>(begin), static_cast<int64_t>(at));
      if (per_token()) {
        add_tokens(batch.inputs[b], own, results);
      } else {
        if (begin == at) refuse_empty(batch.inputs[b]);
        add_text(batch.inputs[b], {&own(0, 0), static_cast<size_t>(own.extent(1))}, results);
      }
    }
  }

  void finish(Results& results) override {
    if (results.is_json()) results.json.field("labels", labels_);
  }

 private:
  bool per_token() const { return detect_ || session_.config().task == Task::classify_tokens; }

  [[noreturn]] static void refuse_empty(const Input& input) {
    throw Error({.what = "a text without tokens has no label",
                 .where = input.where,
                 .got = "an empty text",
                 .expected = "at least one token"});
  }

  Activations scores_of(View<const float, 2> logits) const {
    Activations scores(logits.extent(0), std::ssize(labels_));
    for (int64_t row = 0; row < logits.extent(0); ++row) {
      for (int64_t label = 0; label < logits.extent(1); ++label) {
        const float logit = logits(row, label);
        const bool each = detect_ || session_.config().multi_label;
        scores.rows(row, detect_ ? 1 : label) = each ? 1 / (1 + std::exp(-logit)) : logit;
      }
      if (detect_) scores.rows(row, 0) = 1 - scores.rows(row, 1);
    }
    const ModelConfig& config = session_.config();
    if (!detect_ && !config.multi_label && !config.regression) softmax(scores.rows);
    return scores;
  }

  void add_text(const Input& input, std::span<const float> scores, Results& results) const {
    const int32_t best = largest(scores, 1).front();
    if (!results.is_json()) {
      results.text += caption(session_, input) + "\n";
      for (const int32_t label : largest(scores, 5)) {
        results.text +=
            session_.config().regression
                ? fmt::format("    {}{:>10.4f}\n", padded(labels_[label], 20), scores[label])
                : fmt::format("    {}{:>8.2f} %  {}\n", padded(labels_[label], 20),
                              100 * scores[label], bar(scores[label]));
      }
      return;
    }
    results.begin(input);
    results.json.field("label", labels_[best]);
    if (session_.config().multi_label) {
      std::vector<std::string> above;
      for (const int32_t label : labels_of(session_.config(), scores)) {
        above.push_back(labels_[label]);
      }
      results.json.field("labels", above);
    }
    results.json.key("scores");
    results.json.begin_object();
    for (size_t i = 0; i < labels_.size(); ++i) results.json.field(labels_[i], scores[i]);
    results.json.end_object();
    results.end();
  }

  void add_tokens(const Input& input, View<const float, 2> scores, Results& results) const {
    const std::vector<std::string> tokens = session_.tokens(input.encoding.ids);
    std::vector<std::string> best;
    std::vector<float> shares;
    for (int64_t row = 0; row < scores.extent(0); ++row) {
      const std::span<const float> own(&scores(row, 0), labels_.size());
      const int32_t label = labels_of(session_.config(), own).front();
      best.push_back(labels_[label]);
      shares.push_back(own[label]);
    }
    if (results.is_json()) {
      results.begin(input);
      results.json.field("labels", best);
      results.json.key("scores");
      results.json.matrix(scores);
      results.end();
      return;
    }
    results.text += caption(session_, input) + "\n";
    for (size_t i = 0; i < best.size(); ++i) {
      results.text += fmt::format("  {}{}{:>8.2f} %\n", padded(tokens[i], 16), padded(best[i], 16),
                                  100 * shares[i]);
    }
  }

  const Session& session_;
  bool detect_;
  std::vector<std::string> labels_;
};

/// The span with the largest product of probabilities, as transformers' pipeline chooses it.
class Answer : public RunTask {
 public:
  explicit Answer(const Session& session) : session_(session) {}

  void run(const Batch& batch, Results& results) override {
    const Activations hidden = session_.model().forward(batch.tokens, session_.forward());
    const Activations out = session_.model().output(hidden.rows);
    results.keep(out.rows);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const int64_t begin = batch.tokens.offsets[b], end = batch.tokens.offsets[b + 1];
      const Input& input = batch.inputs[b];
      if (begin == end) {
        throw Error({.what = "a text without tokens has no answer", .where = input.where});
      }
      add(input, find(input, out.rows.rows(begin, end)), results);
    }
  }

 private:
  static constexpr int64_t kMostTokens = 15;

  struct Span {
    int64_t first = 0, last = 0;
    double score = 0;
  };

  /// Of one column, over the tokens of the context; over all of --ids, which do not say which.
  /// The first token stands for no answer: it has its share, but no span begins or ends there.
  static std::vector<double> probabilities(const Input& input, View<const float, 2> logits,
                                           int column) {
    std::vector<double> result;
    double largest = -INFINITY, sum = 0;
    const auto counts = [&](int64_t row) {
      return !input.paired || row == 0 || input.encoding.sequence[row] == 1;
    };
    for (int64_t row = 0; row < logits.extent(0); ++row) {
      if (counts(row)) largest = std::max<double>(largest, logits(row, column));
    }
    for (int64_t row = 0; row < logits.extent(0); ++row) {
      result.push_back(counts(row) ? std::exp(logits(row, column) - largest) : 0);
      sum += result.back();
    }
    for (double& value : result) value /= sum;
    if (input.paired) result.front() = 0;
    return result;
  }

  static Span find(const Input& input, View<const float, 2> logits) {
    const std::vector<double> first = probabilities(input, logits, 0);
    const std::vector<double> last = probabilities(input, logits, 1);
    Span best;
    for (int64_t i = 0; i < std::ssize(first); ++i) {
      for (int64_t j = i; j < std::min(std::ssize(first), i + kMostTokens); ++j) {
        if (first[i] * last[j] > best.score) best = {i, j, first[i] * last[j]};
      }
    }
    return best;
  }

  void add(const Input& input, const Span& span, Results& results) const {
    const bool known = input.paired;
    std::string answer;
    if (known) {
      const int64_t begin = input.encoding.bytes[span.first].begin;
      answer = input.second.substr(begin, input.encoding.bytes[span.last].end - begin);
    }
    if (!results.is_json()) {
      results.text += fmt::format(
          "{}\n    {}  ({:.1f} %)\n", caption(session_, input),
          known ? printable(answer) : fmt::format("tokens {} to {}", span.first, span.last),
          100 * span.score);
      return;
    }
    results.begin(input);
    results.json.key("answer");
    known ? results.json.value(answer) : results.json.null();
    if (known) {
      results.json.field("start", input.encoding.code_points[span.first].begin);
      results.json.field("end", input.encoding.code_points[span.last].end);
    }
    results.json.field("first_token", span.first);
    results.json.field("last_token", span.last);
    results.json.field("score", span.score);
    results.end();
  }

  const Session& session_;
};

}  // namespace

std::unique_ptr<RunTask> make_fill(const Session& session, const RunOptions& options) {
  return std::make_unique<Fill>(session, options);
}
std::unique_ptr<RunTask> make_classify(const Session& session) {
  return std::make_unique<Classify>(session);
}
std::unique_ptr<RunTask> make_answer(const Session& session) {
  return std::make_unique<Answer>(session);
}

}  // namespace headwise::program
