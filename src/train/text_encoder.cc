// Checks every text: not empty, not too long, all ids in the vocabulary.
#include "train/text_encoder.h"

#include <fmt/format.h>

#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"

namespace headwise {

TextEncoder::TextEncoder(const Tokenizer& tokenizer, const ModelConfig& config,
                         const ReadOptions& options)
    : tokenizer_(tokenizer),
      config_(config),
      truncate_(options.truncate),
      most_(options.length > 0 ? options.length : config.max_positions) {
  const int64_t positions = config.max_positions;
  if (options.length < 0 || (positions > 0 && options.length > positions)) {
    throw Error({.what = "data: texts of this length cannot be",
                 .where = "length",
                 .got = fmt::format("{}", options.length),
                 .expected = positions > 0
                                 ? fmt::format("1 to {}, the model's positions", positions)
                                 : "at least 1"});
  }
}

std::vector<int32_t> TextEncoder::encode(std::string_view text, EncodeOptions options, int64_t most,
                                         int64_t vocabulary, const LineReader& reader) const {
  if (text.empty()) {
    throw Error({.what = "data: a text is empty",
                 .where = reader.where(),
                 .expected = "some text",
                 .hint = "remove the line, in parallel files from both"});
  }
  if (truncate_ && most > 0) options.truncate = most;
  std::vector<int32_t> ids = tokenizer_.encode(text, options).ids;
  if (most > 0 && std::ssize(ids) > most) {
    throw Error({.what = "data: a text is too long",
                 .where = reader.where(),
                 .got = fmt::format("{} tokens ({})", ids.size(), quote(text)),
                 .expected = fmt::format("at most {}", most),
                 .hint = "split the text, or set truncate to cut such texts"});
  }
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocabulary) continue;
    throw Error({.what = "data: the tokenizer gives a token that the model does not have",
                 .where = reader.where(),
                 .got = fmt::format("id {}, {}", id, quote(tokenizer_.token(id))),
                 .expected = fmt::format("0 to {}", vocabulary - 1),
                 .hint = "the tokenizer belongs to another model, or tokens were added to it"});
  }
  return ids;
}

std::vector<int32_t> TextEncoder::encode(std::string_view text, const LineReader& reader) const {
  std::vector<int32_t> ids = encode(text, {}, most_, config_.vocabulary, reader);
  if (!ids.empty()) return ids;
  throw Error({.what = "data: a text has no tokens", .where = reader.where(), .got = quote(text)});
}

std::vector<int32_t> TextEncoder::encode_target(std::string_view text,
                                                const LineReader& reader) const {
  return encode(text, {.add_special = false, .target = true}, most_ > 0 ? most_ - 1 : 0,
                config_.decoder_vocabulary, reader);
}

std::vector<int32_t> TextEncoder::encode_part(std::string_view text,
                                              const LineReader& reader) const {
  return encode(text, {.add_special = false}, 0, config_.vocabulary, reader);
}

}  // namespace headwise
