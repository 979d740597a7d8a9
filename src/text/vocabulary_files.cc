// BERT and its kin from vocab.txt, GPT-2 and its kin from vocab.json and merges.txt.
#include <fmt/format.h>

#include <utility>

#include "headwise/core/error.h"
#include "io/file.h"
#include "text/large_json.h"
#include "text/patterns.h"
#include "text/pipeline.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

using Json = nlohmann::json;

template <class Line>
void for_each_line(std::string_view text, Line line) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view one = text.substr(0, end);
    if (one.ends_with('\r')) one.remove_suffix(1);
    line(one);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
}

void check_utf8(std::string_view text, const std::string& where) {
  if (is_valid_utf8(text)) return;
  throw Error({.what = "tokenizer: the file is no UTF-8", .where = where});
}

// A token per line; of equal ones the last counts.
Vocabulary read_lines(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  check_utf8(file, path.string());
  std::vector<std::string_view> tokens;
  for_each_line(file, [&](std::string_view line) { tokens.push_back(line); });
  Vocabulary vocabulary;
  vocabulary.reserve(tokens.size(), file.size());
  for (size_t i = tokens.size(); i-- > 0;) vocabulary.add(tokens[i], static_cast<int32_t>(i));
  vocabulary.index_ids(path.string());
  return vocabulary;
}

Merges read_merges_txt(const std::filesystem::path& path, const Vocabulary& vocabulary) {
  const std::string file = read_file(path);
  const std::string where = path.string();
  check_utf8(file, where);
  Merges merges;
  for_each_line(file, [&](std::string_view line) {
    if (line.empty() || line.starts_with("#version")) return;
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) {
      throw Error({.what = "tokenizer: not a merge",
                   .where = fmt::format("{}: merge {}", where, merges.size() + 1),
                   .got = quote(line),
                   .expected = "two tokens with a space between them"});
    }
    merges.push_back(
        merge_of(vocabulary, line.substr(0, space), line.substr(space + 1), where, merges.size()));
  });
  return merges;
}

int32_t id_of(const Vocabulary& vocabulary, const std::string& token, const std::string& where) {
  if (const auto id = vocabulary.find(token)) return *id;
  throw Error({.what = "tokenizer: a special token is not in the vocabulary",
               .where = where,
               .got = quote(token),
               .expected = "a token of the vocabulary"});
}

Json roberta_processing(const AddedToken& cls, const AddedToken& sep, bool trim, bool prefix,
                        const Vocabulary& vocabulary, const std::string& where) {
  return {{"type", "RobertaProcessing"},
          {"sep", {sep.content, id_of(vocabulary, sep.content, where)}},
          {"cls", {cls.content, id_of(vocabulary, cls.content, where)}},
          {"trim_offsets", trim},
          {"add_prefix_space", prefix}};
}

void add_tokens(Json& description, std::vector<AddedToken> tokens, const FolderConfig& config) {
  const auto more = more_added_tokens(config);
  tokens.insert(tokens.end(), more.begin(), more.end());
  description["added_tokens"] = to_json(tokens);
}

Json byte_level(bool prefix, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

}  // namespace

TokenizerParts read_word_piece_files(const FolderConfig& config) {
  const std::filesystem::path file = config.folder / "vocab.txt";
  const JsonObject object = config.object();
  const bool mpnet = config.family == "mpnet";
  Vocabulary vocabulary = read_lines(file);
  const AddedToken unk = config.special_token("unk_token", "[UNK]");
  const AddedToken cls = config.special_token("cls_token", mpnet ? "<s>" : "[CLS]");
  const AddedToken sep = config.special_token("sep_token", mpnet ? "</s>" : "[SEP]");
  const AddedToken pad = config.special_token("pad_token", mpnet ? "<pad>" : "[PAD]");
  const AddedToken mask = config.special_token("mask_token", mpnet ? "<mask>" : "[MASK]", mpnet);
  Json description = {
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", true},
        {"handle_chinese_chars", object.optional_boolean("tokenize_chinese_chars").value_or(true)},
        {"strip_accents", nullptr},
        {"lowercase", object.optional_boolean("do_lower_case").value_or(true)}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  if (const auto strip = object.optional_boolean("strip_accents")) {
    description["normalizer"]["strip_accents"] = *strip;
  }
  const std::string c = cls.content + ":0", s = sep.content;
  description["post_processor"] =
      mpnet ? roberta_processing(cls, sep, true, false, vocabulary, file.string())
            : template_json({c, "$A:0", s + ":0"}, {c, "$A:0", s + ":0", "$B:1", s + ":1"},
                            vocabulary);
  add_tokens(description, {unk, sep, pad, cls, mask}, config);
  TokenizerParts parts = assemble(JsonObject(description, file.string()), false, [&](bool) {
    return make_word_piece(std::move(vocabulary), unk.content, "##", 100, file.string());
  });
  parts.kind = "WordPiece";
  return parts;
}

TokenizerParts read_byte_level_files(const FolderConfig& config) {
  const std::filesystem::path file = config.folder / "vocab.json";
  const JsonObject object = config.object();
  Vocabulary vocabulary = read_vocabulary(read_file(file), file.string());
  const Merges merges = read_merges_txt(config.folder / "merges.txt", vocabulary);
  const bool prefix = object.optional_boolean("add_prefix_space").value_or(false);
  Json description = {{"pre_tokenizer", byte_level(prefix, true)},
                      {"decoder", byte_level(true, true)}};
  if (config.family == "roberta") {
    const AddedToken cls = config.special_token("cls_token", "<s>");
    const AddedToken sep = config.special_token("sep_token", "</s>");
    description["post_processor"] =
        roberta_processing(cls, sep, object.optional_boolean("trim_offsets").value_or(true), prefix,
                           vocabulary, file.string());
    add_tokens(description,
               {config.special_token("bos_token", "<s>"), config.special_token("eos_token", "</s>"),
                sep, cls, config.special_token("unk_token", "<unk>"),
                config.special_token("pad_token", "<pad>"),
                config.special_token("mask_token", "<mask>", true)},
               config);
  } else if (config.family == "qwen2" || config.family == "gpt2" || config.family.empty()) {
    const AddedToken end = config.special_token("eos_token", "<|endoftext|>");
    if (config.family == "qwen2") {
      description["normalizer"] = {{"type", "NFC"}};
      description["pre_tokenizer"] = {{"type", "Sequence"},
                                      {"pretokenizers",
                                       {{{"type", "Split"},
                                         {"pattern", {{"Regex", kQwen2Pattern}}},
                                         {"behavior", "Isolated"},
                                         {"invert", false}},
                                        byte_level(prefix, false)}}};
    } else if (object.optional_boolean("add_bos_token").value_or(false)) {
      const std::string bos = config.special_token("bos_token", "<|endoftext|>").content;
      description["post_processor"] =
          template_json({bos + ":0", "$A:0"}, {bos + ":0", "$A:0", bos + ":1", "$B:1"}, vocabulary);
    }
    add_tokens(description,
               {config.special_token("unk_token", "<|endoftext|>"),
                config.special_token("bos_token", end.content.c_str()), end},
               config);
  } else {
    throw Error({.what = "tokenizer: a family that is not known for vocab.json and merges.txt",
                 .where = config.folder.string(),
                 .got = config.family,
                 .expected =
                     "gpt2, roberta or qwen2, by tokenizer_class in tokenizer_config.json or "
                     "model_type in config.json",
                 .hint = "with transformers, save the tokenizer with its tokenizer.json"});
  }
  const JsonObject object_of_parts(description, file.string());
  TokenizerParts parts = assemble(object_of_parts, has_all_bytes(vocabulary), [&](bool raw_bytes) {
    return make_bpe(std::move(vocabulary), merges, {.raw_bytes = raw_bytes}, file.string());
  });
  parts.kind = "byte-level BPE";
  return parts;
}

}  // namespace headwise::text
