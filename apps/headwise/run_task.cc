// Which tasks there are, and what they share.
#include "run_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "screen.h"

namespace headwise::program {

void check_task(const std::string& name, const Session& session) {
  const std::vector<std::string_view> known = run_tasks(session.config());
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

Json& Results::add(const Input& input) {
  Json& one = items.emplace_back(Json::object());
  if (form_.bare) return one;
  one["ids"] = input.encoding.ids;
  one["tokens"] = session_.tokens(input.encoding.ids);
  if (!session_.config().encoder_decoder() || input.decoder_ids.empty()) return one;
  one["decoder_ids"] = input.decoder_ids;
  one["decoder_tokens"] = session_.tokens(input.decoder_ids);
  return one;
}

void Results::add(const Input& input, const char* name, View<const float, 2> rows) {
  Json& one = add(input);
  if (!form_.array) one[name] = json_rows(rows);
}

void Results::keep(View<const float, 2> rows) {
  if (!form_.keeps) return;
  row_shape = {rows.extent(1)};
  for (int64_t row = 0; row < rows.extent(0); ++row) {
    for (int64_t column = 0; column < rows.extent(1); ++column) values.push_back(rows(row, column));
  }
}

void need_tokens(const Batch& batch, const char* what) {
  for (const Input& input : batch.inputs) {
    if (!input.encoding.ids.empty()) continue;
    throw Error({.what = fmt::format("a text without tokens has no {}", what),
                 .where = input.where,
                 .got = "an empty text",
                 .expected = "at least one token"});
  }
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

bool gives_tokens(const ModelConfig& config) {
  return config.task == Task::masked_lm || config.task == Task::causal_lm ||
         config.task == Task::seq2seq_lm;
}

std::span<const float> row_of(View<const float, 2> rows, int64_t row) {
  return {&rows(row, 0), static_cast<size_t>(rows.extent(1))};
}

}  // namespace headwise::program
