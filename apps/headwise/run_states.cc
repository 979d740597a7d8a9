// Tasks that give numbers: hidden states, logits, sentence embeddings, negative log likelihoods.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/model/score.h"
#include "run_task.h"
#include "screen.h"

namespace headwise::program {
namespace {

constexpr int kShownValues = 6;

std::string first_values(std::span<const float> row) {
  std::string text;
  for (size_t i = 0; i < row.size() && i < kShownValues; ++i)
    text += fmt::format("{:>9.4f}", row[i]);
  return row.size() > kShownValues ? text + "  …" : text;
}

/// The hidden states that a task reads: of the decoder if it has something to read.
struct States {
  Activations hidden{};
  const TokenBatch* tokens = nullptr;  // that they are of

  View<const float, 2> of_text(int64_t b) const {
    return hidden.rows.rows(tokens->offsets[b], tokens->offsets[b + 1]);
  }
  int32_t id(int64_t b, int64_t row) const { return tokens->ids[tokens->offsets[b] + row]; }
};

States states_of(const Session& session, const Batch& batch) {
  if (session.config().encoder_decoder() && batch.decoder.rows() > 0) {
    return {session.model().forward(batch.tokens, batch.decoder, session.forward()),
            &batch.decoder};
  }
  return {session.model().forward(batch.tokens, session.forward()), &batch.tokens};
}

class Hidden : public RunTask {
 public:
  explicit Hidden(const Session& session) : session_(session) {}

  void run(const Batch& batch, Results& results) override {
    const States states = states_of(session_, batch);
    results.keep(states.hidden.rows);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const View<const float, 2> rows = states.of_text(b);
      if (results.is_json()) {
        results.add(batch.inputs[b], "hidden", rows);
        continue;
      }
      results.text +=
          fmt::format("{}\n  {} tokens, {} values each\n", caption(session_, batch.inputs[b]),
                      rows.extent(0), rows.extent(1));
      for (int64_t row = 0; row < rows.extent(0); ++row) {
        results.text += fmt::format("  {}{}\n", padded(session_.token(states.id(b, row)), 14),
                                    first_values(row_of(rows, row)));
      }
    }
  }

 private:
  const Session& session_;
};

class Logits : public RunTask {
 public:
  Logits(const Session& session, int64_t top) : session_(session), top_(top) {}

  void run(const Batch& batch, Results& results) override {
    if (session_.config().encoder_decoder() && batch.decoder.rows() == 0) {
      throw Error({.what = "the decoder has nothing to read",
                   .expected = "--decoder-ids, --decoder-text or --reference"});
    }
    const States states = states_of(session_, batch);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const View<const float, 2> hidden = states.of_text(b);
      const std::vector<int64_t> offsets = {0, hidden.extent(0)};
      const std::vector<int64_t> rows = session_.model().output_rows(offsets);
      const Activations out = session_.model().output(gather(hidden, rows).rows);
      results.keep(out.rows);
      if (results.is_json()) {
        results.add(batch.inputs[b], "logits", out.rows);
        continue;
      }
      results.text += caption(session_, batch.inputs[b]) + "\n";
      for (size_t i = 0; i < rows.size(); ++i) {
        results.text += "  " + padded(session_.token(states.id(b, rows[i])), 14) +
                        shown(row_of(out.rows, static_cast<int64_t>(i))) + "\n";
      }
    }
  }

 private:
  std::string shown(std::span<const float> logits) const {
    if (!gives_tokens(session_.config())) return first_values(logits);
    std::string text;
    for (const int32_t id : largest(logits, top_)) {
      text += fmt::format("  {} {:.3f}", printable(session_.token(id)), logits[id]);
    }
    return text;
  }

  const Session& session_;
  int64_t top_;
};

class Embed : public RunTask {
 public:
  Embed(const Session& session, SentencePooling pooling)
      : session_(session), pooling_(std::move(pooling)) {}

  void run(const Batch& batch, Results& results) override {
    need_tokens(batch, "embedding");
    const Activations hidden = session_.model().forward(batch.tokens, session_.forward());
    const Activations embedded = pooling_.embed(hidden.rows, batch.tokens.offsets);
    results.keep(embedded.rows);
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const auto row = row_of(embedded.rows, b);
      if (results.is_json()) {
        Json& one = results.add(batch.inputs[b]);
        if (!results.is_array()) one["embedding"] = json_numbers(row);
        continue;
      }
      ++texts_;
      if (rows_.size() < kMostCompared + 1) rows_.emplace_back(row.begin(), row.end());
      results.text +=
          fmt::format("{:>3}  {}\n     {} values:{}\n", texts_, caption(session_, batch.inputs[b]),
                      row.size(), first_values(row));
    }
  }

  void finish(Results& results) override {
    if (rows_.size() < 2 || rows_.size() > kMostCompared) return;
    results.text += "\ncosine similarity\n    ";
    for (size_t j = 0; j < rows_.size(); ++j) results.text += fmt::format("{:>7}", j + 1);
    const auto view = [](const std::vector<float>& row) {
      return View<const float, 2>(row.data(), {1, std::ssize(row)});
    };
    for (size_t i = 0; i < rows_.size(); ++i) {
      results.text += fmt::format("\n{:>4}", i + 1);
      for (const std::vector<float>& other : rows_) {
        results.text += fmt::format("{:>7.3f}", change_of(view(rows_[i]), view(other)).cosine());
      }
    }
    results.text += '\n';
  }

 private:
  static constexpr size_t kMostCompared = 12;

  const Session& session_;
  SentencePooling pooling_;
  int64_t texts_ = 0;
  std::vector<std::vector<float>> rows_;
};

class Nll : public RunTask {
 public:
  explicit Nll(const Session& session) : session_(session) {}

  void run(const Batch& batch, Results& results) override {
    const bool two = session_.config().encoder_decoder();
    TokenBatch scored;  // one number for each of its tokens
    for (const Input& input : batch.inputs) {
      if (two && input.decoder_ids.empty()) {
        throw Error({.what = "there is no text to score",
                     .where = input.where,
                     .expected = "--reference FILE, --decoder-text or --decoder-ids"});
      }
      scored.add(two ? std::span(input.decoder_ids).subspan(1) : std::span(input.encoding.ids));
    }
    const std::vector<float> nll =
        two ? target_nll(session_.model(), batch.tokens, scored, session_.forward())
            : next_token_nll(session_.model(), batch.tokens, session_.forward());
    results.keep({nll.data(), {std::ssize(nll), 1}});
    results.row_shape.clear();
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      const auto begin = scored.offsets[b], end = scored.offsets[b + 1];
      add(batch.inputs[b], std::span(scored.ids).subspan(begin, end - begin),
          std::span(nll).subspan(begin, end - begin), results);
    }
  }

  void finish(Results& results) override {
    const double mean = sum_ / static_cast<double>(scored_);
    if (results.is_json()) {
      results.totals = {{"nll", json_number(mean)},
                        {"perplexity", json_number(std::exp(mean))},
                        {"scored", scored_}};
      return;
    }
    if (scored_ == 0) {
      results.text += "no token was scored: nothing comes before the first one of a text\n";
      return;
    }
    if (texts_ == 1) {
      for (const auto& [token, value] : tokens_) {
        results.text +=
            fmt::format("  {}{}\n", padded(token, 14),
                        std::isnan(value) ? "        -" : fmt::format("{:>9.4f}", value));
      }
    }
    results.text += fmt::format("{} tokens, {:.4f} nats each, perplexity {:.4g}\n",
                                grouped(scored_), mean, std::exp(mean));
  }

 private:
  void add(const Input& input, std::span<const int32_t> ids, std::span<const float> nll,
           Results& results) {
    double sum = 0;
    int64_t count = 0;
    for (const float value : nll) {
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    sum_ += sum;
    scored_ += count;
    ++texts_;
    const double mean = sum / static_cast<double>(count);
    if (results.is_json()) {
      Json& one = results.add(input);
      one["nll"] = json_number(mean);
      one["scored"] = count;
      one["token_nll"] = json_numbers(nll);
      return;
    }
    tokens_.clear();
    for (size_t i = 0; i < ids.size(); ++i) tokens_.emplace_back(session_.token(ids[i]), nll[i]);
    results.text += count == 0 ? fmt::format("{:>9}", "-") : fmt::format("{:>9.4f}", mean);
    results.text += fmt::format("  {:>6} tokens  {}\n", count, caption(session_, input));
  }

  const Session& session_;
  double sum_ = 0;
  int64_t scored_ = 0, texts_ = 0;
  std::vector<std::pair<std::string, float>> tokens_;  // of the last text
};

}  // namespace

std::unique_ptr<RunTask> make_hidden(const Session& session) {
  return std::make_unique<Hidden>(session);
}
std::unique_ptr<RunTask> make_logits(const Session& session, const RunOptions& options) {
  return std::make_unique<Logits>(session, options.top.value_or(kTop));
}
std::unique_ptr<RunTask> make_embed(const Session& session, SentencePooling pooling) {
  return std::make_unique<Embed>(session, std::move(pooling));
}
std::unique_ptr<RunTask> make_nll(const Session& session) { return std::make_unique<Nll>(session); }

}  // namespace headwise::program
