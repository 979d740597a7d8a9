// Which task a folder is for, and what the tasks share.
#include "run_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/core/error.h"

namespace headwise::program {
namespace {

/// The tasks that a model can do besides hidden and embed.
std::vector<std::string> own_tasks(const ModelConfig& config) {
  switch (config.task) {
    case Task::hidden:
      return {};
    case Task::masked_lm:
      return {"fill", "logits"};
    case Task::causal_lm:
      return {"generate", "nll", "logits"};
    case Task::seq2seq_lm:
      return config.translates ? std::vector<std::string>{"translate", "generate", "nll", "logits"}
                               : std::vector<std::string>{"generate", "translate", "nll", "logits"};
    case Task::classify:
    case Task::classify_tokens:
    case Task::detect:
      return {"classify", "logits"};
    case Task::answer:
      return {"answer", "logits"};
  }
  return {};
}

}  // namespace

std::string default_run_task(const Session& session, bool sentence_embeddings) {
  if (sentence_embeddings) return "embed";
  const std::vector<std::string> own = own_tasks(session.config());
  return own.empty() ? "hidden" : own.front();
}

void check_task(const std::string& name, const Session& session) {
  std::vector<std::string> known = own_tasks(session.config());
  known.insert(known.end(), {"embed", "hidden"});
  if (std::ranges::find(known, name) != known.end()) return;
  throw Error({.what = "the model cannot do this task",
               .where = fmt::format("--task {}", name),
               .got = fmt::format("a folder for {}", to_string(session.config().task)),
               .expected = fmt::format("{}", fmt::join(known, ", ")),
               .hint = name == "nll" && session.config().task == Task::masked_lm
                           ? "only causal and sequence-to-sequence models give a text a probability"
                           : ""});
}

std::unique_ptr<RunTask> make_task(const Session& session, const RunOptions& options,
                                   std::optional<SentencePooling> pooling) {
  const std::string& name = options.task;
  if (name == "hidden") return make_hidden(session);
  if (name == "logits") return make_logits(session, options);
  if (name == "embed") {
    return make_embed(session, pooling ? std::move(*pooling) : SentencePooling::mean());
  }
  if (name == "nll") return make_nll(session);
  if (name == "fill") return make_fill(session, options);
  if (name == "classify") return make_classify(session);
  if (name == "answer") return make_answer(session);
  return make_generate(session, options);
}

void Results::begin(const Input& input) {
  json.begin_object();
  if (form_.bare) return;
  json.field("ids", input.encoding.ids);
  json.field("tokens", session_.tokens(input.encoding.ids));
  if (!session_.config().encoder_decoder() || input.decoder_ids.empty()) return;
  json.field("decoder_ids", input.decoder_ids);
  json.field("decoder_tokens", session_.tokens(input.decoder_ids));
}

void Results::keep(View<const float, 2> rows) {
  if (!form_.keeps) return;
  row_shape = {rows.extent(1)};
  for (int64_t row = 0; row < rows.extent(0); ++row) {
    for (int64_t column = 0; column < rows.extent(1); ++column) values.push_back(rows(row, column));
  }
}

States states_of(const Session& session, const Batch& batch) {
  if (session.config().encoder_decoder() && batch.decoder.rows() > 0) {
    return {.hidden = session.model().forward(batch.tokens, batch.decoder, session.forward()),
            .offsets = batch.decoder.offsets,
            .ids = batch.decoder.ids};
  }
  return {.hidden = session.model().forward(batch.tokens, session.forward()),
          .offsets = batch.tokens.offsets,
          .ids = batch.tokens.ids};
}

std::string caption(const Session& session, const Input& input) {
  std::string text = input.text;
  if (input.paired) text += " | " + input.second;
  if (text.empty()) {
    text = fmt::format("{}", fmt::join(session.tokens(input.encoding.ids), " "));
  }
  text = printable(text);
  constexpr size_t kMost = 70;
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

size_t display_width(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string printable(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const bool last = at + 1 == text.size();
    // U+0080 to U+009F are controls, too; in UTF-8 they are C2 80 to C2 9F.
    const bool wide = byte == 0xC2 && !last && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (byte == '\n' || byte == '\t') {
      result += byte == '\n' ? "\\n" : "\\t";
    } else if (byte < ' ' || byte == 0x7F || wide) {
      result += fmt::format("\\x{:02x}", wide ? static_cast<unsigned char>(text[++at]) : byte);
    } else {
      result += text[at];
    }
  }
  return result;
}

std::string padded(std::string_view text, size_t width) {
  std::string result = printable(text);
  for (size_t n = display_width(result); n < width; ++n) result += ' ';
  return result;
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

std::vector<int32_t> labels_of(const ModelConfig& config, std::span<const float> scores) {
  const bool of_text = config.task == Task::classify;
  if (of_text && config.regression) return {};
  if (!of_text || !config.multi_label) return largest(scores, 1);
  std::vector<int32_t> labels;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] >= 0.5f) labels.push_back(static_cast<int32_t>(i));
  }
  return labels;
}

}  // namespace headwise::program
