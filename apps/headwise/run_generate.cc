// The tasks that write text: continuing a prompt, translating a source.
#include <fmt/format.h>

#include <algorithm>

#include "headwise/core/error.h"
#include "run_task.h"

namespace headwise::program {
namespace {

GenerateOptions settings(const Session& session, const RunOptions& options) {
  GenerateOptions how = read_generation(session.folder(), session.config());
  how.seed = options.seed;
  how.forward = session.forward();
  if (options.max_tokens) how.max_new_tokens = *options.max_tokens;
  if (options.length_penalty) how.length_penalty = *options.length_penalty;
  const bool draw =
      (options.temperature && *options.temperature > 0) || options.top_k || options.top_p;
  const bool greedy = options.temperature && *options.temperature == 0;
  if (options.beams) {
    how.beams = *options.beams;
    how.sample = false;
  }
  if (draw) {
    if (options.beams.value_or(1) > 1) misuse("--beams and drawing do not go together");
    how.sample = true;
    how.beams = 1;
  }
  if (greedy) how.sample = false;
  if (options.temperature && !greedy) how.temperature = *options.temperature;
  if (options.top_k) how.top_k = *options.top_k;
  if (options.top_p) how.top_p = *options.top_p;
  return how;
}

class Generate : public RunTask {
 public:
  Generate(const Session& session, const RunOptions& options)
      : session_(session),
        how_(settings(session, options)),
        asked_(options.max_tokens.has_value()) {}

  bool has_array() const override { return false; }
  int64_t most_texts() const override { return std::max<int64_t>(1, 16 / how_.beams); }
  bool apart(const Input& a, const Input& b) const override {
    return room(a) != room(b);  // or the one with less would cut the other
  }

  void run(const Batch& batch, Results& results) override {
    GenerateOptions how = how_;
    how.stream = batch.first;
    how.max_new_tokens = room(batch.inputs.front());
    for (const Input& input : batch.inputs) check(input);
    const std::vector<Generated> written = generate(session_.model(), batch.tokens, how);
    for (int64_t b = 0; b < batch.texts(); ++b) add(batch.inputs[b], written[b], results);
  }

 private:
  /// How many tokens may follow: the positions are shared with the prompt, but not with a source.
  int64_t room(const Input& input) const {
    const ModelConfig& config = session_.config();
    if (config.max_positions == 0) return how_.max_new_tokens;
    const int64_t before = config.encoder_decoder() ? 0 : std::ssize(input.encoding.ids) - 1;
    return std::min(how_.max_new_tokens, std::max<int64_t>(0, config.max_positions - before));
  }

  void check(const Input& input) const {
    if (input.encoding.ids.empty() && !session_.config().encoder_decoder()) {
      throw Error({.what = "an empty prompt has no next token",
                   .where = input.where,
                   .expected = "at least one token"});
    }
    if (!asked_ || room(input) == how_.max_new_tokens) return;
    throw Error({.what = "the text would become longer than the model's positions",
                 .where = fmt::format("{}, --max-tokens", input.where),
                 .got = fmt::format("{} tokens and {} new ones", input.encoding.ids.size(),
                                    how_.max_new_tokens),
                 .expected = fmt::format("at most {} new ones", room(input))});
  }

  void add(const Input& input, const Generated& written, Results& results) const {
    const Tokenizer* tokenizer = session_.tokenizer();
    if (results.is_json()) {
      results.begin(input);
      results.json.key("output");
      tokenizer != nullptr ? results.json.value(tokenizer->decode(written.ids))
                           : results.json.null();
      results.json.field("output_ids", written.ids);
      if (how_.beams > 1) results.json.field("score", written.score);
      results.end();
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
  GenerateOptions how_;
  bool asked_;
};

}  // namespace

std::unique_ptr<RunTask> make_generate(const Session& session, const RunOptions& options) {
  return std::make_unique<Generate>(session, options);
}

}  // namespace headwise::program
