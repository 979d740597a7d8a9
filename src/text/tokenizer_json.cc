// tokenizer.json: its model and added tokens, and how the parts go together.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "io/file.h"
#include "text/large_json.h"
#include "text/pipeline.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

using Json = nlohmann::json;

Merges read_merges(std::string_view json, const Vocabulary& vocabulary, const std::string& where) {
  Merges merges;
  merges.reserve(json.size() / 16);
  for_each_merge(json, where, [&](std::string_view left, std::string_view right) {
    merges.push_back(merge_of(vocabulary, left, right, where, merges.size()));
  });
  return merges;
}

// Files of early versions do not name the type of their model.
std::string model_type(const JsonObject& model) {
  if (model.has("type")) return model.text("type");
  if (model.has("merges")) return "BPE";
  if (model.value("vocab").is_array()) return "Unigram";
  return model.has("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

/// Whether a part is of the type, or one of a sequence is.
bool has_part(const Json& in, const std::string& type) {
  if (in.is_object()) {
    const auto found = in.find("type");
    if (found != in.end() && *found == type) return true;
  }
  return in.is_structured() && std::any_of(in.begin(), in.end(), [&](const Json& inside) {
           return inside.is_structured() && has_part(inside, type);
         });
}

std::unique_ptr<const Model> read_unigram(const JsonObject& model, std::string_view vocabulary,
                                          const std::string& where) {
  std::vector<std::pair<std::string, double>> entries;
  entries.reserve(vocabulary.size() / 24);
  for_each_score(vocabulary, model.where("vocab"),
                 [&](std::string_view token, double score) { entries.emplace_back(token, score); });
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

struct ModelReader {
  const JsonObject& model;
  const LargeValues& large;
  std::string where;
  std::string type = model_type(model);
  Vocabulary vocabulary =
      type == "Unigram" ? Vocabulary() : read_vocabulary(large.vocabulary, model.where("vocab"));

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
      const Merges merges = read_merges(large.merges, vocabulary, where);
      return make_bpe(std::move(vocabulary), merges, options, where);
    }
    if (type == "WordPiece") {
      return make_word_piece(std::move(vocabulary), model.text("unk_token"),
                             model.text("continuing_subword_prefix"),
                             model.integer("max_input_chars_per_word", 1), where);
    }
    if (type == "Unigram") return read_unigram(model, large.vocabulary, where);
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

/// Every id that an encoding can have must be in the vocabulary.
void check_ids(const JsonObject& file, const TokenizerParts& parts) {
  const int64_t size = parts.pipeline->size();
  const std::string expected = fmt::format("ids below {}, the size of the vocabulary", size);
  for (const auto* items : {&parts.post_processor.single, &parts.post_processor.pair}) {
    for (const TemplateItem& item : *items) {
      if (item.sequence < 0 && item.id >= size) {
        file.refuse("post_processor",
                    fmt::format("tokenizer: the template puts id {}, which has no token", item.id),
                    expected);
      }
    }
  }
  if (parts.pad_id && *parts.pad_id >= size) {
    file.refuse("padding", "tokenizer: pad_id has no token", expected);
  }
}

}  // namespace

TokenizerParts assemble(const JsonObject& description, bool can_read_bytes,
                        const std::function<std::unique_ptr<const Model>(bool)>& make_model,
                        std::unique_ptr<const Normalizer> normalizer) {
  TokenizerParts parts;
  PipelineParts pipeline{.normalizer = std::move(normalizer)};
  bool raw_bytes = can_read_bytes;
  if (const auto part = description.optional_object("normalizer")) {
    pipeline.normalizer = make_normalizer(*part);
  }
  if (const auto part = description.optional_object("pre_tokenizer")) {
    pipeline.pre_tokenizer = make_pre_tokenizer(*part, raw_bytes);
  } else {
    raw_bytes = false;
  }
  if (const auto part = description.optional_object("post_processor")) {
    parts.post_processor = make_post_processor(*part);
  }
  if (const auto part = description.optional_object("decoder")) {
    pipeline.decoder = make_decoder(*part);
  }
  pipeline.model = make_model(raw_bytes);
  pipeline.added_tokens = read_added_tokens(description);
  pipeline.needs_space_counts = !parts.post_processor.trims.empty();
  parts.pipeline = make_pipeline(std::move(pipeline));
  read_padding(description, parts);
  check_ids(description, parts);
  return parts;
}

TokenizerParts read_tokenizer_json(const FolderConfig& config) {
  const std::filesystem::path path = config.folder / "tokenizer.json";
  const std::string text = read_file(path);
  const std::string where = path.string();
  const LargeValues large = take_large_values(text);
  Json json = parse_json(large.rest, where);
  const JsonObject file(json, where);
  build_as_class(config, json);
  if (file.has("version") && file.text("version") != "1.0") {
    file.refuse("version", "tokenizer: another version of the format", "1.0");
  }
  const JsonObject model = file.object("model");
  ModelReader reader{model, large, where};
  TokenizerParts parts = assemble(file, reader.can_read_bytes(),
                                  [&](bool raw_bytes) { return reader.read(raw_bytes); });
  parts.kind = kind_of(file);
  return parts;
}

std::string kind_of(const JsonObject& file) {
  const std::string type = model_type(file.object("model"));
  const bool bytes =
      file.has("pre_tokenizer") && has_part(file.value("pre_tokenizer"), "ByteLevel");
  return type == "BPE" && bytes ? "byte-level BPE" : type;
}

}  // namespace headwise::text
