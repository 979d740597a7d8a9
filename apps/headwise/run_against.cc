// headwise run --against: what two models make of the same texts, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/core/error.h"
#include "run_task.h"
#include "screen.h"

namespace headwise::program {
namespace {

/// What one model makes of one text.
struct Outcome {
  Json json{};  // the task's fields; or
  std::string text{};
  std::vector<float> values{};  // rows of `width`
  int64_t width = 1;

  int64_t rows() const { return std::ssize(values) / std::max<int64_t>(1, width); }
  View<const float, 2> view() const { return {values.data(), {rows(), width}}; }
  std::span<const float> row(int64_t i) const { return row_of(view(), i); }
};

Outcome outcome_of(RunTask& task, const Session& session, const Batch& batch, bool json) {
  Results results(session, {.json = json, .keeps = true, .bare = true});
  task.run(batch, results);
  Outcome outcome{.text = std::move(results.text), .values = std::move(results.values)};
  if (json) outcome.json = std::move(results.items.front());
  for (const int64_t extent : results.row_shape) outcome.width *= extent;
  return outcome;
}

std::string title(const std::string& of) {
  return fmt::format("  {}{:>10}{:>10}{:>10}\n", padded(of, 22), "before", "after", "change");
}

std::string line(const std::string& name, float before, float after) {
  return fmt::format("    {}{:>10.4f}{:>10.4f}{:>+10.4f}\n", padded(name, 20), before, after,
                     after - before);
}

std::string share_line(const std::string& name, float before, float after) {
  return fmt::format("    {}{:>8.2f} %{:>8.2f} %{:>+10.2f}\n", padded(name, 20), 100 * before,
                     100 * after, 100 * (after - before));
}

/// The last part of an answer, without the question, which stands above it.
std::string without_caption(const std::string& text) {
  return text.substr(std::min(text.size(), text.find("\n    ") + 5));
}

/// What changed for one text, as JSON and for people.
struct Change {
  Json json = Json::object();
  std::string text{};
};

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
    const Input& input = batch.inputs.front();
    const Outcome before = outcome_of(*task_before_, before_, batch, results.is_json());
    const Outcome after = outcome_of(*task_after_, after_, batch, results.is_json());
    check_shapes(before, after);
    ++texts_;
    Change change;
    if (!results.is_json() && options_.task != "nll") change.text = caption(after_, input) + "\n";
    compare(batch, before, after, change);
    if (!results.is_json()) {
      results.text += change.text;
      return;
    }
    Json& one = results.add(input);
    one["before"] = before.json;
    one["after"] = after.json;
    one["change"] = std::move(change.json);
  }

  void finish(Results& results) override {
    const std::string& task = options_.task;
    if (task == "nll") {
      finish_nll(results);
    } else if (task == "embed") {
      finish(results, "cosine", json_number(cosines_ / static_cast<double>(texts_)), "mean cosine");
    } else if (task == "hidden" || task == "logits") {
      finish(results, "relative_norm", json_number(all_.relative_norm()),
             "relative norm of the change");
    } else if (after_.config().task == Task::classify && after_.config().regression) {
      finish(results, "largest", json_number(all_.largest), "largest change of a score");
    } else {
      finish(results, "changed", changed_,
             task == "fill" ? "most probable tokens that change" : "outputs that change");
    }
  }

 private:
  std::unique_ptr<RunTask> task_of(const Session& session) const {
    return make_task(session, options_, SentencePooling::find(session.model().folder()));
  }

  void check_shapes(const Outcome& before, const Outcome& after) const {
    const auto refuse = [&](const char* what, const std::string& got, int64_t expected) {
      throw Error(
          {.what = fmt::format("the models' outputs of {} have not {}", options_.task, what),
           .where = fmt::format("--against {}", options_.against),
           .got = got,
           .expected = fmt::format("{}", expected)});
    };
    if (before.width != after.width) {
      refuse("the same width", fmt::format("{}", before.width), after.width);
    }
    if (before.values.size() != after.values.size()) {
      refuse("as many rows", fmt::format("{} rows", before.rows()), after.rows());
    }
  }

  void compare(const Batch& batch, const Outcome& before, const Outcome& after, Change& change) {
    const std::string& task = options_.task;
    if (task == "nll") return compare_nll(batch, before, after, change);
    if (task == "fill") return compare_fill(batch, before, after, change);
    if (task == "classify") {
      return labels_tokens(after_.config()) ? compare_token_labels(batch, before, after, change)
                                            : compare_labels(before, after, change);
    }
    if (task == "embed" || task == "hidden" || task == "logits") {
      return compare_rows(batch, before, after, change);
    }
    compare_text(batch, before, after, change);
  }

  /// Hidden states, logits, embeddings.
  void compare_rows(const Batch& batch, const Outcome& before, const Outcome& after,
                    Change& change) {
    const RowsChange rows = change_of(before.view(), after.view());
    all_.add(rows);
    cosines_ += rows.cosine();
    const bool embeds = options_.task == "embed";
    change.json = {{"cosine", json_number(rows.cosine())},
                   {"relative_norm", json_number(rows.relative_norm())},
                   {"largest", json_number(rows.largest)}};
    if (embeds) {
      change.text += fmt::format("  cosine {:.6f}  relative norm of the change {:.4f}\n",
                                 rows.cosine(), rows.relative_norm());
      return;
    }
    change.json["position"] = rows.row;
    change.text += fmt::format("  relative norm of the change {:.4f}, largest {:.4f}",
                               rows.relative_norm(), rows.largest);
    const Input& input = batch.inputs.front();
    const bool decoder = !input.decoder_ids.empty() && after_.config().encoder_decoder();
    const std::vector<int32_t>& ids = decoder ? input.decoder_ids : input.encoding.ids;
    if (before.rows() == std::ssize(ids) && !ids.empty()) {
      change.text +=
          fmt::format(" at token {}, {}", rows.row, printable(after_.token(ids[rows.row])));
    }
    change.text += '\n';
    if (options_.task != "logits" || before.rows() == 0) return;
    const auto a = before.row(before.rows() - 1), b = after.row(after.rows() - 1);
    change.text += title("last row");
    for (const int32_t id : largest_of_both(a, b, top_)) {
      const bool token = gives_tokens(after_.config());
      change.text += line(token ? after_.token(id) : fmt::format("{}", id), a[id], b[id]);
    }
  }

  /// Probabilities of tokens.
  Json compare_tokens(std::span<const float> before, std::span<const float> after,
                      std::string& text) const {
    Json all = Json::array();
    for (const int32_t id : largest_of_both(before, after, top_)) {
      const std::string token = after_.token(id);
      all.push_back({{"token", token},
                     {"id", id},
                     {"before", json_number(before[id])},
                     {"after", json_number(after[id])},
                     {"change", json_number(after[id] - before[id])}});
      text += share_line(token, before[id], after[id]);
    }
    return all;
  }

  void compare_fill(const Batch& batch, const Outcome& before, const Outcome& after,
                    Change& change) {
    Json& all = change.json["fill"] = Json::array();
    int64_t mask = 0;
    for (int64_t row = 0; row < batch.tokens.rows(); ++row) {
      if (batch.tokens.ids[row] != task_after_->mask()) continue;
      const auto a = before.row(mask), b = after.row(mask);
      change.text += title(fmt::format("token {}", row));
      all.push_back({{"position", row}, {"candidates", compare_tokens(a, b, change.text)}});
      changed_ += largest(a, 1) != largest(b, 1);
      ++mask;
    }
  }

  void compare_token_labels(const Batch& batch, const Outcome& before, const Outcome& after,
                            Change& change) {
    const ModelConfig& config = after_.config();
    const std::vector<std::string> labels = label_names(config);
    int64_t changed = 0;
    for (int64_t row = 0; row < before.rows(); ++row) {
      const auto a = before.row(row), b = after.row(row);
      const int32_t best = chosen_labels(config, a).front(), now = chosen_labels(config, b).front();
      if (best == now) continue;
      ++changed;
      const int32_t id = batch.inputs.front().encoding.ids[row];
      change.text +=
          fmt::format("  {}{} {:.2f} %, then {} {:.2f} %\n", padded(after_.token(id), 16),
                      labels[best], 100 * a[best], labels[now], 100 * b[now]);
    }
    changed_ += changed > 0;
    const RowsChange scores = change_of(before.view(), after.view());
    change.json = {{"labels_changed", changed}, {"largest", json_number(scores.largest)}};
    change.text += fmt::format("  {} of {} labels change, scores by at most {:.4f}\n", changed,
                               before.rows(), scores.largest);
  }

  void compare_labels(const Outcome& before, const Outcome& after, Change& change) {
    const ModelConfig& config = after_.config();
    const std::vector<std::string> labels = label_names(config);
    const auto a = before.row(0), b = after.row(0);
    const bool changed = chosen_labels(config, a) != chosen_labels(config, b);
    changed_ += changed;
    all_.add(change_of(before.view(), after.view()));
    if (!config.regression) change.json["label_changed"] = changed;
    Json& scores = change.json["scores"] = Json::object();
    for (size_t i = 0; i < labels.size(); ++i) scores[labels[i]] = json_number(b[i] - a[i]);
    change.text += title("label");
    for (const int32_t label : largest_of_both(a, b, 5)) {
      const auto show = config.regression ? line : share_line;
      change.text += show(labels[label], a[label], b[label]);
    }
  }

  void compare_nll(const Batch& batch, const Outcome& before, const Outcome& after,
                   Change& change) {
    double sums[2] = {};
    int64_t count = 0;
    Json tokens = Json::array();
    for (size_t i = 0; i < before.values.size(); ++i) {
      tokens.push_back(json_number(after.values[i] - before.values[i]));
      if (std::isnan(before.values[i]) || std::isnan(after.values[i])) continue;
      sums[0] += before.values[i];
      sums[1] += after.values[i];
      ++count;
    }
    const auto n = static_cast<double>(count);
    nll_[0] += sums[0];
    nll_[1] += sums[1];
    scored_ += count;
    change.json = {{"nll", json_number((sums[1] - sums[0]) / n)}, {"token_nll", std::move(tokens)}};
    if (texts_ == 1) {
      change.text = fmt::format("{:>9}{:>9}{:>9}  {:>6}\n", "before", "after", "change", "tokens");
    }
    change.text +=
        fmt::format("{:>9.4f}{:>9.4f}{:>+9.4f}  {:>6}  {}\n", sums[0] / n, sums[1] / n,
                    (sums[1] - sums[0]) / n, count, caption(after_, batch.inputs.front()));
  }

  void finish_nll(Results& results) const {
    const auto n = static_cast<double>(scored_);
    const double before = nll_[0] / n, after = nll_[1] / n;
    const auto figures = [](double nll) {
      return Json{{"nll", json_number(nll)}, {"perplexity", json_number(std::exp(nll))}};
    };
    results.totals = {{"before", figures(before)},
                      {"after", figures(after)},
                      {"change", {{"nll", json_number(after - before)}}},
                      {"scored", scored_}};
    results.text += scored_ == 0
                        ? "no token was scored: nothing comes before the first one of a text\n"
                        : fmt::format(
                              "{} tokens, nats each {:.4f} before, {:.4f} after: {:+.4f}; "
                              "perplexity {:.4g}, then {:.4g}\n",
                              grouped(scored_), before, after, after - before, std::exp(before),
                              std::exp(after));
  }

  /// Of one number about all texts.
  void finish(Results& results, const char* name, const Json& value, const char* words) const {
    results.totals["change"] = {{name, value}};
    if (texts_ == 1) return;
    results.text +=
        fmt::format("\n{} texts, {}: {:.6g}\n", grouped(texts_), words, value.get<double>());
  }

  /// Answers, and text that is written, before which stands what its first token would be.
  void compare_text(const Batch& batch, const Outcome& before, const Outcome& after,
                    Change& change) {
    const bool same = before.json == after.json && before.text == after.text;
    changed_ += !same;
    change.json["output_changed"] = !same;
    const bool answers = options_.task == "answer";
    if (!answers) {
      const auto next = [&](const Session& session) {
        return next_token_probabilities(session.model(), batch.tokens, session.forward());
      };
      const Activations a = next(before_), b = next(after_);
      // Checkpoints pad the vocabulary to different sizes. Candidates are tokens of both models.
      const auto width = static_cast<size_t>(std::min(a.rows.extent(1), b.rows.extent(1)));
      change.text += title("next token");
      change.json["next"] =
          compare_tokens({&a.rows(0, 0), width}, {&b.rows(0, 0), width}, change.text);
    }
    const auto shown = [&](const Outcome& one) {
      return answers ? without_caption(one.text) : one.text;
    };
    change.text += same ? "  before and after: " + shown(after)
                        : "  before: " + shown(before) + "  after:  " + shown(after);
  }

  const Session &before_, &after_;
  const RunOptions& options_;
  int64_t top_;
  std::unique_ptr<RunTask> task_before_, task_after_;
  int64_t texts_ = 0, changed_ = 0, scored_ = 0;
  double cosines_ = 0, nll_[2] = {};
  RowsChange all_{};
};

}  // namespace

std::unique_ptr<RunTask> make_against(const Session& before, const Session& after,
                                      const RunOptions& options) {
  return std::make_unique<Against>(before, after, options);
}

}  // namespace headwise::program
