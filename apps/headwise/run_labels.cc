// Tasks that give labels and words: classification of texts and tokens, masked words, answers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/core/error.h"
#include "run_task.h"
#include "screen.h"

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
    const Activations out = token_probabilities(session_.model(), hidden.rows, masks);
    results.keep(out.rows);
    int64_t at = 0;
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      if (!results.is_json()) results.text += caption(session_, batch.inputs[b]) + "\n";
      Json filled = Json::array();
      for (; at < std::ssize(masks) && masks[at] < batch.tokens.offsets[b + 1]; ++at) {
        const int64_t position = masks[at] - batch.tokens.offsets[b];
        if (results.is_json()) {
          filled.push_back({{"position", position}, {"candidates", as_json(row_of(out.rows, at))}});
        } else {
          results.text += fmt::format("  token {}\n", position) + as_text(row_of(out.rows, at));
        }
      }
      if (results.is_json()) results.add(batch.inputs[b])["fill"] = std::move(filled);
    }
  }

 private:
  [[noreturn]] void refuse(const Input& input) const {
    throw Error({.what = "there is no mask to fill",
                 .where = input.where,
                 .got = fmt::format("\"{}\"", caption(session_, input)),
                 .expected = fmt::format("a text with {}", session_.token(*mask_))});
  }

  Json as_json(std::span<const float> probabilities) const {
    Json candidates = Json::array();
    for (const int32_t id : largest(probabilities, top_)) {
      candidates.push_back({{"token", session_.token(id)},
                            {"id", id},
                            {"probability", json_number(probabilities[id])}});
    }
    return candidates;
  }

  std::string as_text(std::span<const float> probabilities) const {
    std::string text;
    for (const int32_t id : largest(probabilities, top_)) {
      text += fmt::format("    {}{:>8.2f} %  {}\n", padded(session_.token(id), 16),
                          100 * probabilities[id], bar(probabilities[id]));
    }
    return text;
  }

  const Session& session_;
  int64_t top_;
  std::optional<int32_t> mask_;
};

class Classify : public RunTask {
 public:
  explicit Classify(const Session& session)
      : session_(session), labels_(label_names(session.config())) {}

  void run(const Batch& batch, Results& results) override {
    const bool per_token = labels_tokens(session_.config());
    if (!per_token) need_tokens(batch, "label");
    const LabelScores found = classify(session_.model(), batch.tokens, session_.forward());
    results.keep(found.scores.rows);
    size_t at = 0;
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const size_t begin = at;
      while (at < found.rows.size() && found.rows[at] < batch.tokens.offsets[b + 1]) ++at;
      const View<const float, 2> own =
          found.scores.rows.rows(static_cast<int64_t>(begin), static_cast<int64_t>(at));
      per_token ? add_tokens(batch.inputs[b], own, results)
                : add_text(batch.inputs[b], row_of(own, 0), results);
    }
  }

  void finish(Results& results) override { results.totals["labels"] = labels_; }

 private:
  void add_text(const Input& input, std::span<const float> scores, Results& results) const {
    const ModelConfig& config = session_.config();
    if (!results.is_json()) {
      results.text += caption(session_, input) + "\n";
      for (const int32_t label : largest(scores, 5)) {
        results.text +=
            config.regression
                ? fmt::format("    {}{:>10.4f}\n", padded(labels_[label], 20), scores[label])
                : fmt::format("    {}{:>8.2f} %  {}\n", padded(labels_[label], 20),
                              100 * scores[label], bar(scores[label]));
      }
      return;
    }
    Json& one = results.add(input);
    one["label"] = labels_[largest(scores, 1).front()];
    if (config.multi_label) {
      one["labels"] = Json::array();
      for (const int32_t label : chosen_labels(config, scores)) {
        one["labels"].push_back(labels_[label]);
      }
    }
    Json& all = one["scores"] = Json::object();
    for (size_t i = 0; i < labels_.size(); ++i) all[labels_[i]] = json_number(scores[i]);
  }

  void add_tokens(const Input& input, View<const float, 2> scores, Results& results) const {
    if (!results.is_json()) results.text += caption(session_, input) + "\n";
    Json best = Json::array();
    for (int64_t row = 0; row < scores.extent(0); ++row) {
      const int32_t label = chosen_labels(session_.config(), row_of(scores, row)).front();
      best.push_back(labels_[label]);
      if (results.is_json()) continue;
      results.text +=
          fmt::format("  {}{}{:>8.2f} %\n", padded(session_.token(input.encoding.ids[row]), 16),
                      padded(labels_[label], 16), 100 * scores(row, label));
    }
    if (!results.is_json()) return;
    Json& one = results.add(input);
    one["labels"] = std::move(best);
    one["scores"] = json_rows(scores);
  }

  const Session& session_;
  std::vector<std::string> labels_;
};

class Answer : public RunTask {
 public:
  explicit Answer(const Session& session) : session_(session) {}

  void run(const Batch& batch, Results& results) override {
    need_tokens(batch, "answer");
    const Activations hidden = session_.model().forward(batch.tokens, session_.forward());
    const Activations out = session_.model().output(hidden.rows);
    results.keep(out.rows);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const Input& input = batch.inputs[b];
      const View<const float, 2> logits =
          out.rows.rows(batch.tokens.offsets[b], batch.tokens.offsets[b + 1]);
      // --ids do not say which tokens are the context.
      add(input, input.paired ? find_answer(logits, input.encoding.sequence) : find_answer(logits),
          results);
    }
  }

 private:
  void add(const Input& input, const AnswerSpan& span, Results& results) const {
    std::string answer;
    if (input.paired) {
      const int64_t begin = input.encoding.bytes[span.first].begin;
      answer = input.second.substr(begin, input.encoding.bytes[span.last].end - begin);
    }
    if (!results.is_json()) {
      results.text += fmt::format(
          "{}\n    {}  ({:.1f} %)\n", caption(session_, input),
          input.paired ? printable(answer) : fmt::format("tokens {} to {}", span.first, span.last),
          100 * span.score);
      return;
    }
    Json& one = results.add(input);
    one["answer"] = input.paired ? Json(answer) : Json();
    if (input.paired) {
      one["start"] = input.encoding.code_points[span.first].begin;
      one["end"] = input.encoding.code_points[span.last].end;
    }
    one["first_token"] = span.first;
    one["last_token"] = span.last;
    one["score"] = json_number(span.score);
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
