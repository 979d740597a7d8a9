// tokenizer.json: its model and added tokens, and how the parts go together.
#include <fmt/format.h>

#include <utility>

#include "headwise/core/error.h"
#include "io/json.h"
#include "text/pipeline.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

using Json = nlohmann::json;
using Merges = std::vector<std::pair<std::string, std::string>>;

Vocabulary read_vocabulary(const JsonObject& model) {
  const JsonObject object = model.object("vocab");
  const Json& tokens = model.value("vocab");
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size(), tokens.size() * 8);
  for (const auto& [token, id] : tokens.get_ref<const Json::object_t&>()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= INT32_MAX) {
      object.refuse(token, "tokenizer: not an id", "a whole number below 2147483647");
    }
    vocabulary.add(token, id.get<int32_t>());
  }
  vocabulary.index_ids(model.where("vocab"));
  return vocabulary;
}

// ["a b", …] or [["a", "b"], …]
Merges read_merges(const JsonObject& model) {
  const Json& list = model.value("merges");
  Merges merges;
  const auto refuse = [&](const std::string& got) {
    throw Error({.what = "tokenizer: not a merge",
                 .where = fmt::format("{}[{}]", model.where("merges"), merges.size()),
                 .got = got,
                 .expected = "\"left right\" or [\"left\", \"right\"]"});
  };
  if (!list.is_array()) model.refuse("merges", "tokenizer: no list", "an array of merges");
  merges.reserve(list.size());
  for (const Json& merge : list) {
    if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos) refuse(quote(text));
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      merges.emplace_back(merge[0].get_ref<const std::string&>(),
                          merge[1].get_ref<const std::string&>());
    } else {
      refuse(quote(merge.dump()));
    }
  }
  return merges;
}

// Files of early versions do not name the type of their model.
std::string model_type(const JsonObject& model) {
  if (model.has("type")) return model.text("type");
  if (model.has("merges")) return "BPE";
  if (model.value("vocab").is_array()) return "Unigram";
  return model.has("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

std::unique_ptr<const Model> read_unigram(const JsonObject& model, const std::string& where) {
  std::vector<std::pair<std::string, double>> entries;
  const Json& list = model.value("vocab");
  if (!list.is_array()) model.refuse("vocab", "tokenizer: no list", "an array of [token, score]");
  entries.reserve(list.size());
  for (const Json& entry : list) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      throw Error({.what = "tokenizer: not a token with its score",
                   .where = fmt::format("{}[{}]", model.where("vocab"), entries.size()),
                   .got = quote(entry.dump()),
                   .expected = "[\"token\", score]"});
    }
    entries.emplace_back(entry[0].get_ref<const std::string&>(), entry[1].get<double>());
  }
  std::optional<int32_t> unk;
  if (const auto id = model.optional_integer("unk_id", 0, INT32_MAX)) {
    unk = static_cast<int32_t>(*id);
  }
  return make_unigram(entries, unk, model.optional_boolean("byte_fallback").value_or(false), where);
}

BpeOptions read_bpe_options(const JsonObject& model) {
  if (model.optional_number("dropout").value_or(0) != 0) {
    model.refuse("dropout", "tokenizer: BPE with dropout gives other tokens every time",
                 "null or 0", "set it to null to get the same tokens every time");
  }
  return {.unk_token = model.optional_text("unk_token"),
          .continuing_prefix = model.optional_text("continuing_subword_prefix").value_or(""),
          .word_suffix = model.optional_text("end_of_word_suffix").value_or(""),
          .fuse_unk = model.optional_boolean("fuse_unk").value_or(false),
          .byte_fallback = model.optional_boolean("byte_fallback").value_or(false),
          .ignore_merges = model.optional_boolean("ignore_merges").value_or(false)};
}

/// `raw_bytes`: the pre-tokenizer can leave bytes as they are. Set to false if the model cannot.
struct ModelReader {
  const JsonObject& model;
  std::string where;
  std::string type = model_type(model);
  Vocabulary vocabulary = type == "Unigram" ? Vocabulary() : read_vocabulary(model);

  bool can_read_bytes() const {
    if (type != "BPE") return false;
    const BpeOptions options = read_bpe_options(model);
    return options.continuing_prefix.empty() && options.word_suffix.empty() &&
           has_all_bytes(vocabulary);
  }

  std::unique_ptr<const Model> read(bool raw_bytes) {
    if (type == "BPE") {
      BpeOptions options = read_bpe_options(model);
      options.raw_bytes = raw_bytes;
      return make_bpe(std::move(vocabulary), read_merges(model), options, where);
    }
    if (type == "WordPiece") {
      return make_word_piece(std::move(vocabulary), model.text("unk_token"),
                             model.text("continuing_subword_prefix"),
                             model.integer("max_input_chars_per_word", 1), where);
    }
    if (type == "Unigram") return read_unigram(model, where);
    if (type == "WordLevel") {
      return make_word_level(std::move(vocabulary), model.text("unk_token"), where);
    }
    model.refuse("type", "tokenizer: a model that is not known",
                 "BPE, Unigram, WordLevel or WordPiece");
  }
};

std::vector<AddedToken> read_added_tokens(const JsonObject& file) {
  std::vector<AddedToken> tokens;
  if (!file.has("added_tokens")) return tokens;
  for (const JsonObject& token : file.objects("added_tokens")) {
    tokens.push_back({.content = token.text("content"),
                      .single_word = token.boolean("single_word"),
                      .lstrip = token.boolean("lstrip"),
                      .rstrip = token.boolean("rstrip"),
                      .normalized = token.boolean("normalized"),
                      .special = token.boolean("special")});
  }
  return tokens;
}

void read_padding(const JsonObject& file, TokenizerParts& parts) {
  if (const auto truncation = file.optional_object("truncation")) {
    parts.truncate_left = truncation->optional_text("direction") == "Left";
  }
  if (const auto padding = file.optional_object("padding")) {
    parts.pad_left = padding->optional_text("direction") == "Left";
    if (const auto id = padding->optional_integer("pad_id", 0, INT32_MAX)) {
      parts.pad_id = static_cast<int32_t>(*id);
    }
    parts.pad_type =
        static_cast<int32_t>(padding->optional_integer("pad_type_id", 0, INT32_MAX).value_or(0));
  }
}

}  // namespace

TokenizerParts read_tokenizer_json(const std::filesystem::path& path) {
  const Json json = read_json(path);
  const std::string where = path.string();
  const JsonObject file(json, where);
  if (file.has("version") && file.text("version") != "1.0") {
    file.refuse("version", "tokenizer: another version of the format", "1.0");
  }
  const JsonObject model = file.object("model");
  ModelReader reader{model, where};
  TokenizerParts parts;
  PipelineParts pipeline;
  bool raw_bytes = reader.can_read_bytes();
  if (const auto part = file.optional_object("normalizer")) {
    pipeline.normalizer = make_normalizer(*part);
  }
  if (const auto part = file.optional_object("pre_tokenizer")) {
    pipeline.pre_tokenizer = make_pre_tokenizer(*part, raw_bytes);
  } else {
    raw_bytes = false;
  }
  if (const auto part = file.optional_object("post_processor")) {
    parts.post_processor = make_post_processor(*part);
  }
  if (const auto part = file.optional_object("decoder")) pipeline.decoder = make_decoder(*part);
  pipeline.model = reader.read(raw_bytes);
  pipeline.added_tokens = read_added_tokens(file);
  pipeline.needs_space_counts = !parts.post_processor.trims.empty();
  parts.pipeline = make_pipeline(std::move(pipeline));
  read_padding(file, parts);
  return parts;
}

}  // namespace headwise::text
