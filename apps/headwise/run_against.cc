// headwise run --against: what two models make of the same texts, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/kernels/softmax.h"
#include "run_task.h"

namespace headwise::program {
namespace {

/// What one model makes of one text.
struct Outcome {
  std::string shown{};          // for people, or the JSON of the task's fields
  std::vector<float> values{};  // rows of `width`
  int64_t width = 1;

  int64_t rows() const { return std::ssize(values) / std::max<int64_t>(1, width); }
  std::span<const float> row(int64_t i) const {
    return std::span(values).subspan(i * width, width);
  }
};

/// How far numbers are from others.
struct Difference {
  double squares = 0, before_squares = 0, after_squares = 0, product = 0, largest = 0;
  int64_t row = 0;  // of the largest change

  double relative_norm() const { return std::sqrt(squares / before_squares); }
  double cosine() const { return product / std::sqrt(before_squares * after_squares); }

  void operator+=(const Difference& other) {
    squares += other.squares;
    before_squares += other.before_squares;
    after_squares += other.after_squares;
    product += other.product;
    largest = std::max(largest, other.largest);
  }
};

Difference difference_of(const Outcome& before, const Outcome& after) {
  Difference result;
  for (size_t i = 0; i < before.values.size(); ++i) {
    const double a = before.values[i], b = after.values[i];
    result.squares += (b - a) * (b - a);
    result.before_squares += a * a;
    result.after_squares += b * b;
    result.product += a * b;
    if (std::abs(b - a) <= result.largest) continue;
    result.largest = std::abs(b - a);
    result.row = static_cast<int64_t>(i) / before.width;
  }
  return result;
}

/// The most probable of both, those of `before` first.
std::vector<int32_t> candidates_of(std::span<const float> before, std::span<const float> after,
                                   int64_t top) {
  std::vector<int32_t> ids = largest(before, top);
  for (const int32_t id : largest(after, top)) {
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  }
  return ids;
}

class Against : public RunTask {
 public:
  Against(const Session& before, const Session& after, const RunOptions& options)
      : before_(before),
        after_(after),
        options_(options),
        top_(options.top.value_or(kTop)),
        task_before_(task_of(before)),
        task_after_(task_of(after)) {}

  bool has_array() const override { return false; }
  int64_t most_texts() const override { return 1; }

  void run(const Batch& batch, Results& results) override {
    const Outcome before = outcome_of(*task_before_, before_, batch, results.is_json());
    const Outcome after = outcome_of(*task_after_, after_, batch, results.is_json());
    const Input& input = batch.inputs.front();
    if (before.width != after.width) {
      throw Error(
          {.what = fmt::format("the models' outputs of {} have not the same width", options_.task),
           .where = fmt::format("--against {}", options_.against),
           .got = fmt::format("{}", before.width),
           .expected = fmt::format("{}", after.width)});
    }
    if (before.values.size() != after.values.size()) {
      throw Error(
          {.what = fmt::format("the models' outputs of {} have not as many rows", options_.task),
           .where = fmt::format("--against {}", options_.against),
           .got = fmt::format("{} rows", before.rows()),
           .expected = fmt::format("{}", after.rows())});
    }
    ++texts_;
    if (results.is_json()) {
      results.begin(input);
      results.json.key("before");
      results.json.raw(before.shown);
      results.json.key("after");
      results.json.raw(after.shown);
      results.json.key("change");
      results.json.begin_object();
      compare(batch, before, after, results);
      results.json.end_object();
      results.end();
    } else {
      if (options_.task != "nll") results.text += caption(after_, input) + "\n";
      compare(batch, before, after, results);
    }
  }

  void finish(Results& results) override {
    if (options_.task == "nll") {
      finish_nll(results);
    } else if (options_.task == "embed") {
      finish_one(results, "cosine", cosines_ / static_cast<double>(texts_), "mean cosine");
    } else if (options_.task == "hidden" || options_.task == "logits") {
      finish_one(results, "relative_norm", all_.relative_norm(), "relative norm of the change");
    } else if (options_.task == "classify" && after_.config().task == Task::classify &&
               after_.config().regression) {
      finish_one(results, "largest", all_.largest, "largest change of a score");
    } else {
      finish_one(
          results, "changed", changed_,
          options_.task == "fill" ? "most probable tokens that change" : "outputs that change");
    }
  }

 private:
  std::unique_ptr<RunTask> task_of(const Session& session) const {
    return make_task(session, options_, SentencePooling::find(session.model().folder()));
  }

  static Outcome outcome_of(RunTask& task, const Session& session, const Batch& batch, bool json) {
    Results results(session, {.json = json, .keeps = true, .bare = true});
    task.run(batch, results);
    Outcome side{.shown = json ? results.json.take() : std::move(results.text),
                 .values = std::move(results.values)};
    if (json) side.shown.pop_back();  // the end of the line
    for (const int64_t extent : results.row_shape) side.width *= extent;
    return side;
  }

  void compare(const Batch& batch, const Outcome& before, const Outcome& after, Results& results) {
    const std::string& task = options_.task;
    if (task == "nll") return compare_nll(batch, before, after, results);
    if (task == "fill") return compare_fill(batch, before, after, results);
    if (task == "embed") return compare_rows(batch, before, after, results);
    if (task == "hidden" || task == "logits") return compare_rows(batch, before, after, results);
    if (task == "classify") return compare_labels(batch, before, after, results);
    compare_text(batch, before, after, results);
  }

  /// Hidden states, logits, embeddings.
  void compare_rows(const Batch& batch, const Outcome& before, const Outcome& after,
                    Results& results) {
    const Difference change = difference_of(before, after);
    all_ += change;
    cosines_ += change.cosine();
    const bool embeds = options_.task == "embed";
    const bool of_tokens = before.rows() > 1 || !embeds;
    const Input& input = batch.inputs.front();
    const bool decoder = !input.decoder_ids.empty() && after_.config().encoder_decoder();
    const std::vector<int32_t>& ids = decoder ? input.decoder_ids : input.encoding.ids;
    const bool one_per_token = before.rows() == std::ssize(ids);
    if (results.is_json()) {
      results.json.field("cosine", change.cosine());
      results.json.field("relative_norm", change.relative_norm());
      results.json.field("largest", change.largest);
      if (of_tokens) results.json.field("position", change.row);
      return;
    }
    if (embeds) {
      results.text += fmt::format("  cosine {:.6f}  relative norm of the change {:.4f}\n",
                                  change.cosine(), change.relative_norm());
      return;
    }
    results.text += fmt::format("  relative norm of the change {:.4f}, largest {:.4f}",
                                change.relative_norm(), change.largest);
    if (one_per_token && !ids.empty()) {
      results.text += fmt::format(" at token {}, {}", change.row,
                                  printable(after_.tokens({&ids[change.row], 1}).front()));
    }
    results.text += '\n';
    if (options_.task == "logits" && before.rows() > 0) show_logits(before, after, results);
  }

  /// Of the last row.
  void show_logits(const Outcome& before, const Outcome& after, Results& results) const {
    const ModelConfig& config = after_.config();
    const bool words = config.task == Task::masked_lm || config.task == Task::causal_lm ||
                       config.task == Task::seq2seq_lm;
    const auto a = before.row(before.rows() - 1), b = after.row(after.rows() - 1);
    results.text += head_of_table("last row");
    for (const int32_t id : candidates_of(a, b, top_)) {
      const std::string name = words ? after_.tokens({&id, 1}).front() : fmt::format("{}", id);
      results.text += fmt::format("    {}{:>10.4f}{:>10.4f}{:>+10.4f}\n", padded(name, 20), a[id],
                                  b[id], b[id] - a[id]);
    }
  }

  static std::string head_of_table(const std::string& of) {
    return fmt::format("  {}{:>10}{:>10}{:>10}\n", padded(of, 22), "before", "after", "change");
  }

  /// Probabilities of tokens.
  void add_candidates(std::span<const float> before, std::span<const float> after,
                      Results& results) const {
    for (const int32_t id : candidates_of(before, after, top_)) {
      const std::string token = after_.tokens({&id, 1}).front();
      add_share(token, before[id], after[id], results, id);
    }
  }

  static void add_share(const std::string& name, float before, float after, Results& results,
                        std::optional<int32_t> id = std::nullopt) {
    if (!results.is_json()) {
      results.text += fmt::format("    {}{:>8.2f} %{:>8.2f} %{:>+10.2f}\n", padded(name, 20),
                                  100 * before, 100 * after, 100 * (after - before));
      return;
    }
    results.json.begin_object();
    results.json.field("token", name);
    if (id) results.json.field("id", *id);
    results.json.field("before", before);
    results.json.field("after", after);
    results.json.field("change", after - before);
    results.json.end_object();
  }

  void compare_fill(const Batch& batch, const Outcome& before, const Outcome& after,
                    Results& results) {
    if (results.is_json()) {
      results.json.key("fill");
      results.json.begin_array();
    }
    int64_t mask = 0;
    for (int64_t row = 0; row < batch.tokens.rows(); ++row) {
      if (batch.tokens.ids[row] != task_after_->mask()) continue;
      if (results.is_json()) {
        results.json.begin_object();
        results.json.field("position", row);
        results.json.key("candidates");
        results.json.begin_array();
      } else {
        results.text += head_of_table(fmt::format("token {}", row));
      }
      const auto a = before.row(mask), b = after.row(mask);
      add_candidates(a, b, results);
      changed_ += largest(a, 1) != largest(b, 1);
      ++mask;
      if (!results.is_json()) continue;
      results.json.end_array();
      results.json.end_object();
    }
    if (results.is_json()) results.json.end_array();
  }

  void compare_labels(const Batch& batch, const Outcome& before, const Outcome& after,
                      Results& results) {
    const ModelConfig& config = after_.config();
    const bool detect = config.task == Task::detect;
    const std::vector<std::string> labels =
        detect ? std::vector<std::string>{"original", "replaced"} : config.labels;
    const bool of_tokens = detect || config.task == Task::classify_tokens;
    int64_t changed = 0;
    for (int64_t row = 0; row < before.rows(); ++row) {
      const auto a = before.row(row), b = after.row(row);
      const std::vector<int32_t> labels_before = labels_of(config, a),
                                 labels_after = labels_of(config, b);
      if (labels_before == labels_after) continue;
      ++changed;
      if (of_tokens && !results.is_json()) {
        const int32_t best = labels_before.front(), now = labels_after.front();
        const int32_t id = batch.inputs.front().encoding.ids[row];
        results.text += fmt::format("  {}{} {:.2f} %, then {} {:.2f} %\n",
                                    padded(after_.tokens({&id, 1}).front(), 16), labels[best],
                                    100 * a[best], labels[now], 100 * b[now]);
      }
    }
    changed_ += of_tokens ? changed > 0 : changed;
    if (of_tokens) {
      const Difference change = difference_of(before, after);
      if (results.is_json()) {
        results.json.field("labels_changed", changed);
        results.json.field("largest", change.largest);
      } else {
        results.text += fmt::format("  {} of {} labels change, scores by at most {:.4f}\n", changed,
                                    before.rows(), change.largest);
      }
      return;
    }
    all_ += difference_of(before, after);
    const auto a = before.row(0), b = after.row(0);
    if (results.is_json()) {
      if (!config.regression) results.json.field("label_changed", changed > 0);
      results.json.key("scores");
      results.json.begin_object();
      for (size_t i = 0; i < labels.size(); ++i) results.json.field(labels[i], b[i] - a[i]);
      results.json.end_object();
      return;
    }
    results.text += head_of_table("label");
    for (const int32_t label : candidates_of(a, b, 5)) {
      if (config.regression) {
        results.text +=
            fmt::format("    {}{:>10.4f}{:>10.4f}{:>+10.4f}\n", padded(labels[label], 20), a[label],
                        b[label], b[label] - a[label]);
      } else {
        add_share(labels[label], a[label], b[label], results);
      }
    }
  }

  void compare_nll(const Batch& batch, const Outcome& before, const Outcome& after,
                   Results& results) {
    double sums[2] = {};
    int64_t count = 0;
    for (size_t i = 0; i < before.values.size(); ++i) {
      if (std::isnan(before.values[i]) || std::isnan(after.values[i])) continue;
      sums[0] += before.values[i];
      sums[1] += after.values[i];
      ++count;
    }
    const double n = static_cast<double>(count);
    nll_[0] += sums[0];
    nll_[1] += sums[1];
    scored_ += count;
    if (results.is_json()) {
      results.json.field("nll", (sums[1] - sums[0]) / n);
      results.json.key("token_nll");
      results.json.begin_array();
      for (size_t i = 0; i < before.values.size(); ++i) {
        results.json.value(after.values[i] - before.values[i]);
      }
      results.json.end_array();
      return;
    }
    if (texts_ == 1) {
      results.text +=
          fmt::format("{:>9}{:>9}{:>9}  {:>6}\n", "before", "after", "change", "tokens");
    }
    results.text +=
        fmt::format("{:>9.4f}{:>9.4f}{:>+9.4f}  {:>6}  {}\n", sums[0] / n, sums[1] / n,
                    (sums[1] - sums[0]) / n, count, caption(after_, batch.inputs.front()));
  }

  void finish_nll(Results& results) {
    const auto n = static_cast<double>(scored_);
    const double before = nll_[0] / n, after = nll_[1] / n;
    if (results.is_json()) {
      const auto add = [&](const char* side, double nll) {
        results.json.key(side);
        results.json.begin_object();
        results.json.field("nll", nll);
        results.json.field("perplexity", std::exp(nll));
        results.json.end_object();
      };
      add("before", before);
      add("after", after);
      results.json.key("change");
      results.json.begin_object();
      results.json.field("nll", after - before);
      results.json.end_object();
      results.json.field("scored", scored_);
      return;
    }
    if (scored_ == 0) {
      results.text += "no token was scored: nothing comes before the first one of a text\n";
      return;
    }
    results.text += fmt::format(
        "{} tokens, nats each {:.4f} before, {:.4f} after: {:+.4f}; perplexity {:.4g}, then "
        "{:.4g}\n",
        grouped(scored_), before, after, after - before, std::exp(before), std::exp(after));
  }

  /// Of one number about all texts.
  template <class T>
  void finish_one(Results& results, const char* name, const T& value, const char* words) const {
    if (results.is_json()) {
      results.json.key("change");
      results.json.begin_object();
      results.json.field(name, value);
      results.json.end_object();
    } else if (texts_ > 1) {
      results.text += fmt::format("\n{} texts, {}: {:.6g}\n", grouped(texts_), words,
                                  static_cast<double>(value));
    }
  }

  /// Answers, and text that is written, before which stands what its first token would be.
  void compare_text(const Batch& batch, const Outcome& before, const Outcome& after,
                    Results& results) {
    const bool same = before.shown == after.shown;
    changed_ += !same;
    const bool answers = options_.task == "answer";
    if (results.is_json()) results.json.field("output_changed", !same);
    if (!answers) {
      const Activations a = next_tokens(before_, batch), b = next_tokens(after_, batch);
      if (results.is_json()) {
        results.json.key("next");
        results.json.begin_array();
      } else {
        results.text += head_of_table("next token");
      }
      // Checkpoints pad the vocabulary to different sizes. Candidates are tokens of both models.
      const auto width = static_cast<size_t>(std::min(a.rows.extent(1), b.rows.extent(1)));
      const auto row = [&](const Activations& of) {
        return std::span<const float>(&of.rows(0, 0), width);
      };
      add_candidates(row(a), row(b), results);
      if (results.is_json()) results.json.end_array();
    }
    if (results.is_json()) return;
    results.text += same ? "  before and after: " + last_lines(before.shown, answers)
                         : "  before: " + last_lines(before.shown, answers) +
                               "  after:  " + last_lines(after.shown, answers);
  }

  /// An answer without the question, which stands above it.
  static std::string last_lines(const std::string& text, bool answers) {
    return answers ? text.substr(std::min(text.size(), text.find("\n    ") + 5)) : text;
  }

  /// The probabilities of the token that is written first, [1, V].
  static Activations next_tokens(const Session& session, const Batch& batch) {
    const ModelConfig& config = session.config();
    Activations hidden;
    if (config.encoder_decoder()) {
      TokenBatch start;
      const int32_t first =
          decoder_start(config, read_generation(session.model().folder(), config));
      start.add({&first, 1});
      hidden = session.model().forward(batch.tokens, start, session.forward());
    } else {
      hidden = session.model().forward(batch.tokens, session.forward());
    }
    const int64_t last = hidden.rows.extent(0) - 1;
    Activations out = session.model().output(hidden.rows.rows(last, last + 1));
    softmax(out.rows);
    return out;
  }

  const Session &before_, &after_;
  const RunOptions& options_;
  int64_t top_;
  std::unique_ptr<RunTask> task_before_, task_after_;
  int64_t texts_ = 0, changed_ = 0, scored_ = 0;
  double cosines_ = 0, nll_[2] = {};
  Difference all_{};
};

}  // namespace

std::unique_ptr<RunTask> make_against(const Session& before, const Session& after,
                                      const RunOptions& options) {
  return std::make_unique<Against>(before, after, options);
}

}  // namespace headwise::program
