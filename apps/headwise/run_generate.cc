// The tasks that write text: continuing a prompt, translating a source.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "headwise/core/error.h"
#include "run_task.h"

namespace headwise::program {
namespace {

GenerateOptions settings(const Session& session, const RunOptions& options) {
  GenerateOptions params = read_generation(session.model().folder(), session.config());
  params.seed = options.seed;
  params.forward = session.forward();
  if (options.max_tokens) params.max_new_tokens = *options.max_tokens;
  if (options.length_penalty) params.length_penalty = *options.length_penalty;
  const bool draw =
      (options.temperature && *options.temperature > 0) || options.top_k || options.top_p;
  const bool greedy = options.temperature && *options.temperature == 0;
  if (options.beams) {
    params.beams = *options.beams;
    params.sample = false;
  }
  if (draw) {
    usage_error_if(options.beams.value_or(1) > 1, "--beams and drawing do not go together");
    params.sample = true;
    params.beams = 1;
  }
  if (greedy) params.sample = false;
  if (options.temperature && !greedy) params.temperature = *options.temperature;
  if (options.top_k) params.top_k = *options.top_k;
  if (options.top_p) params.top_p = *options.top_p;
  return params;
}

class Generate : public RunTask {
 public:
  Generate(const Session& session, const RunOptions& options)
      : session_(session),
        options_(settings(session, options)),
        asked_(options.max_tokens.has_value()) {}

  bool has_array() const override { return false; }
  int64_t most_texts() const override { return std::max<int64_t>(1, 16 / options_.beams); }
  bool apart(const Input& a, const Input& b) const override {
    return room(a) != room(b);  // or the one with less would cut the other
  }

  void run(const Batch& batch, Results& results) override {
    GenerateOptions params = options_;
    params.stream = batch.first;
    params.max_new_tokens = room(batch.inputs.front());
    for (const Input& input : batch.inputs) check(input);
    const std::vector<Generated> written = generate(session_.model(), batch.tokens, params);
    for (int64_t b = 0; b < batch.sequences(); ++b) add(batch.inputs[b], written[b], results);
  }

 private:
  /// How many tokens may follow: the positions are shared with the prompt, but not with a source.
  int64_t room(const Input& input) const {
    const ModelConfig& config = session_.config();
    if (config.max_positions == 0) return options_.max_new_tokens;
    const int64_t before = config.encoder_decoder() ? 0 : std::ssize(input.encoding.ids) - 1;
    return std::min(options_.max_new_tokens, std::max<int64_t>(0, config.max_positions - before));
  }

  void check(const Input& input) const {
    if (input.encoding.ids.empty() && !session_.config().encoder_decoder()) {
      throw Error({.what = "an empty prompt has no next token",
                   .where = input.where,
                   .expected = "at least one token"});
    }
    if (!asked_ || room(input) == options_.max_new_tokens) return;
    throw Error({.what = "the text would become longer than the model's positions",
                 .where = fmt::format("{}, --max-tokens", input.where),
                 .got = fmt::format("{} tokens and {} new ones", input.encoding.ids.size(),
                                    options_.max_new_tokens),
                 .expected = fmt::format("at most {} new ones", room(input))});
  }

  void add(const Input& input, const Generated& written, Results& results) const {
    const Tokenizer* tokenizer = session_.tokenizer();
    if (results.is_json()) {
      Json& one = results.add(input);
      one["output"] = tokenizer != nullptr ? Json(tokenizer->decode(written.ids)) : Json();
      one["output_ids"] = written.ids;
      if (options_.beams > 1) one["score"] = json_number(written.score);
      return;
    }
    std::vector<int32_t> all;
    if (!session_.config().encoder_decoder()) all = input.encoding.ids;
    all.insert(all.end(), written.ids.begin(), written.ids.end());
    results.text +=
        tokenizer != nullptr ? tokenizer->decode(all) : fmt::format("{}", fmt::join(all, " "));
    results.text += '\n';
  }

  const Session& session_;
  GenerateOptions options_;
  bool asked_;
};

}  // namespace

std::unique_ptr<RunTask> make_generate(const Session& session, const RunOptions& options) {
  return std::make_unique<Generate>(session, options);
}

}  // namespace headwise::program
