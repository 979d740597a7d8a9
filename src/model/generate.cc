// Options of generation, and the loops that write one token after the other.
#include "headwise/model/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/shape.h"
#include "headwise/io/json.h"
#include "headwise/kernels/softmax.h"
#include "io/file.h"
#include "model/beam_search.h"
#include "model/next_token.h"

namespace headwise {
namespace {

/// Settings that change the text, with the value that leaves it alone.
void refuse_unsupported(const JsonObject& file) {
  const auto refuse_option = [&](const char* name, const char* neutral) {
    file.refuse(name, "a setting of generation is not supported", neutral,
                "remove it from the file if it may be left out");
  };
  for (const char* name : {"repetition_penalty", "encoder_repetition_penalty"}) {
    if (file.optional_number(name).value_or(1) != 1) refuse_option(name, "1");
  }
  for (const char* name : {"no_repeat_ngram_size", "encoder_no_repeat_ngram_size"}) {
    if (file.optional_integer(name).value_or(0) != 0) refuse_option(name, "0");
  }
  for (const char* name : {"min_length", "min_new_tokens", "diversity_penalty", "min_p"}) {
    if (file.optional_number(name).value_or(0) != 0) refuse_option(name, "0");
  }
  for (const char* name : {"typical_p", "num_beam_groups"}) {
    if (file.optional_number(name).value_or(1) != 1) refuse_option(name, "1");
  }
  for (const char* name :
       {"forced_bos_token_id", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"}) {
    if (file.has(name)) refuse_option(name, "none");
  }
  if (file.has("early_stopping") && !file.value("early_stopping").is_boolean()) {
    refuse_option("early_stopping", "true or false");
  }
}

std::vector<int32_t> tokens_of(const JsonObject& file, const char* name) {
  std::vector<int32_t> ids;
  if (!file.has(name)) return ids;
  if (!file.value(name).is_array()) return {static_cast<int32_t>(file.integer(name, 0, INT32_MAX))};
  for (const int64_t id : file.integers(name, 0, INT32_MAX))
    ids.push_back(static_cast<int32_t>(id));
  return ids;
}

/// "bad_words_ids" as far as they are single tokens, which is how Marian forbids padding.
std::vector<int32_t> bad_words(const JsonObject& file) {
  std::vector<int32_t> ids;
  if (!file.has("bad_words_ids")) return ids;
  for (const auto& word : file.value("bad_words_ids")) {
    if (!word.is_array() || word.size() != 1 || !word[0].is_number_unsigned() ||
        word[0].get<uint64_t>() > INT32_MAX) {
      file.refuse("bad_words_ids", "only single tokens can be forbidden", "lists of one id");
    }
    ids.push_back(word[0].get<int32_t>());
  }
  return ids;
}

void read_settings(const JsonObject& file, GenerateOptions& options) {
  refuse_unsupported(file);
  if (const auto eos = tokens_of(file, "eos_token_id"); !eos.empty()) options.eos = eos;
  if (const auto forced = tokens_of(file, "forced_eos_token_id"); !forced.empty()) {
    options.forced_eos = forced.front();
  }
  if (const auto start = tokens_of(file, "decoder_start_token_id"); !start.empty()) {
    options.decoder_start = start.front();
  }
  options.suppressed = bad_words(file);
  options.beams = file.optional_integer("num_beams", 1, 1024).value_or(1);
  options.length_penalty = static_cast<float>(file.optional_number("length_penalty").value_or(1));
  options.early_stopping = file.optional_boolean("early_stopping").value_or(false);
  options.renormalize = file.optional_boolean("renormalize_logits").value_or(false);
  options.sample = file.optional_boolean("do_sample").value_or(false);
  options.temperature = static_cast<float>(file.optional_number("temperature").value_or(1));
  options.top_k = file.optional_integer("top_k").value_or(options.sample ? 50 : 0);
  options.top_p = static_cast<float>(file.optional_number("top_p").value_or(1));
}

[[noreturn]] void refuse_option(const char* where, std::string got, const char* expected) {
  throw Error({.what = "generate: an option is out of range",
               .where = where,
               .got = std::move(got),
               .expected = expected});
}

void check(const Model& model, const GenerateOptions& options) {
  if (model.config().decoder.layers() == 0 || model.output_width() == 0 ||
      (model.config().task != Task::causal_lm && model.config().task != Task::seq2seq_lm)) {
    throw Error({.what = "the model writes no text",
                 .got = std::string(to_string(model.config().task)),
                 .expected = "a causal or sequence-to-sequence language model"});
  }
  if (options.max_new_tokens < 0) {
    refuse_option("max_new_tokens", fmt::format("{}", options.max_new_tokens), "at least 0");
  }
  if (options.beams < 1) refuse_option("beams", fmt::format("{}", options.beams), "at least 1");
  if (options.beams > 1 && options.sample)
    refuse_option("beams", "beams and drawing", "one of them");
  if (options.beams > 1 && options.forward.gates.extent(0) > 1) {
    refuse_option("gates", "gates of their own for every text, and beams",
                  "the same gates for all texts");
  }
  if (!(options.temperature > 0)) {
    refuse_option("temperature", fmt::format("{}", options.temperature), "above 0");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    refuse_option("top_p", fmt::format("{}", options.top_p), "above 0, at most 1");
  }
  if (options.top_k < 0) refuse_option("top_k", fmt::format("{}", options.top_k), "at least 0");
  const auto known = [&](int32_t id) { return id >= 0 && id < model.output_width(); };
  if (!std::ranges::all_of(options.suppressed, known) ||
      (options.forced_eos && !known(*options.forced_eos))) {
    refuse_option("suppressed and forced_eos", "a token that is not there",
                  "ids of the vocabulary");
  }
}

/// Greedy, or by drawing; all texts in step.
std::vector<Generated> write(const Model& model, const TokenBatch& prompts,
                             const TokenBatch& sources, const GenerateOptions& options) {
  const int64_t B = prompts.sequences();
  std::vector<Generated> results(B);
  if (options.max_new_tokens == 0) return results;
  std::vector<Random> random;
  for (int64_t b = 0; b < B; ++b) random.emplace_back(options.seed, options.stream + b);
  DecoderState state = model.start(B, checked_add(longest(prompts), options.max_new_tokens),
                                   sources, options.forward);
  TokenBatch next = prompts;
  for (int64_t length = 1; next.rows() > 0; ++length) {
    const Activations hidden = model.step(next, state, options.forward);
    const std::vector<int64_t> rows = last_rows(next);
    const Activations logits = model.output(gather(hidden.rows, rows).rows);
    std::vector<int32_t> greedy(rows.size());
    const bool last = length == options.max_new_tokens;
    for (size_t i = 0; i < rows.size(); ++i) {
      forbid({&logits.rows(i, 0), static_cast<size_t>(logits.rows.extent(1))}, options, last);
    }
    if (!options.sample) argmax(logits.rows, greedy);
    TokenBatch after;
    size_t row = 0;
    for (int64_t b = 0; b < B; ++b) {
      std::vector<int32_t> token;
      if (next.offsets[b] < next.offsets[b + 1]) {
        const std::span<const float> of_text(&logits.rows(row, 0), logits.rows.extent(1));
        const int32_t id = options.sample ? draw(of_text, options, random[b]) : greedy[row];
        results[b].ids.push_back(id);
        if (!last && !ends(id, options)) token = {id};
        ++row;
      }
      after.add(token);
    }
    next = std::move(after);
  }
  return results;
}

}  // namespace

int64_t longest(const TokenBatch& batch) {
  int64_t longest = 0;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    longest = std::max(longest, batch.offsets[b + 1] - batch.offsets[b]);
  }
  return longest;
}

std::vector<int64_t> last_rows(const TokenBatch& batch) {
  std::vector<int64_t> rows;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    if (batch.offsets[b] < batch.offsets[b + 1]) rows.push_back(batch.offsets[b + 1] - 1);
  }
  return rows;
}

GenerateOptions read_generation(const std::filesystem::path& folder, const ModelConfig& config) {
  GenerateOptions options{.eos = config.eos, .forced_eos = config.forced_eos};
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::filesystem::path file = folder / name;
    if (!is_there(file)) continue;
    const nlohmann::json json = read_json(file);
    read_settings(JsonObject(json, file.string()), options);
    break;
  }
  return options;
}

int32_t decoder_start(const ModelConfig& config, const GenerateOptions& options) {
  for (const auto& token : {options.decoder_start, config.decoder_start, config.bos}) {
    if (token) return *token;
  }
  throw Error({.what = "the config does not say which token a decoder starts with",
               .where = "decoder_start_token_id",
               .expected = "a token id"});
}

std::vector<Generated> generate(const Model& model, const TokenBatch& texts,
                                const GenerateOptions& options) {
  check(model, options);
  texts.check();
  TokenBatch prompts = texts, sources;
  if (model.config().encoder_decoder()) {
    sources = std::exchange(prompts, {});
    const std::vector<int32_t> start{decoder_start(model.config(), options)};
    for (int64_t b = 0; b < texts.sequences(); ++b) prompts.add(start);
  }
  for (int64_t b = 0; b < prompts.sequences(); ++b) {
    if (prompts.offsets[b] == prompts.offsets[b + 1]) {
      throw Error({.what = "an empty prompt has no next token",
                   .where = fmt::format("text {}", b),
                   .hint = "begin with the token that begins texts"});
    }
  }
  return options.beams > 1 ? beam_search(model, prompts, sources, options)
                           : write(model, prompts, sources, options);
}

std::vector<int32_t> decoder_input(const Model& model, const TokenBatch& source, uint64_t seed,
                                   uint64_t stream, const ForwardOptions& forward, int64_t most) {
  const ModelConfig& config = model.config();
  GenerateOptions options = read_generation(model.folder(), config);
  options.seed = seed;
  options.stream = stream;
  options.forward = forward;
  options.max_new_tokens = std::min(options.max_new_tokens, most);
  if (config.max_positions > 0) {  // the start token needs one
    options.max_new_tokens = std::min(options.max_new_tokens, config.max_positions - 1);
  }
  std::vector<int32_t> ids = generate(model, source, options).front().ids;
  if (!ids.empty() && std::ranges::find(options.eos, ids.back()) != options.eos.end()) {
    ids.pop_back();
  }
  ids.insert(ids.begin(), decoder_start(config, options));
  return ids;
}

}  // namespace headwise
