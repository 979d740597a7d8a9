// Which of a folder's files make its tokenizer, and what tokenizer_config.json says about it.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "headwise/core/error.h"
#include "io/file.h"
#include "text/pipeline.h"

namespace headwise::text {
namespace {

using Json = nlohmann::json;
using Id = std::optional<int32_t>;

Json read_if_there(const std::filesystem::path& file) {
  if (!is_there(file)) return Json::object();
  Json json = read_json(file);
  const JsonObject check(json, file.string());  // throws if it is no object
  return json;
}

// The family by the class of the tokenizer, else by the type of the model.
void find_family(FolderConfig& config) {
  static const std::map<std::string, const char*> classes = {
      {"BertTokenizer", "bert"},    {"DistilBertTokenizer", "bert"},
      {"ElectraTokenizer", "bert"}, {"MPNetTokenizer", "mpnet"},
      {"GPT2Tokenizer", "gpt2"},    {"RobertaTokenizer", "roberta"},
      {"Qwen2Tokenizer", "qwen2"},  {"LlamaTokenizer", "llama"},
      {"T5Tokenizer", "t5"},        {"XLMRobertaTokenizer", "xlm-roberta"},
      {"MarianTokenizer", "marian"}};
  static const std::map<std::string, const char*> models = {
      {"distilbert", "bert"}, {"electra", "bert"}, {"qwen3", "qwen2"}, {"mistral", "llama"}};
  const std::string name = config.object().optional_text("tokenizer_class").value_or("");
  const std::string named = name.ends_with("Fast") ? name.substr(0, name.size() - 4) : name;
  config.takes_json_as_it_is = named == "PreTrainedTokenizer" || named == "TokenizersBackend";
  if (!named.empty() && !config.takes_json_as_it_is) {
    const auto known = classes.find(named);
    config.family = known == classes.end() ? named : known->second;
    return;
  }
  const Json model = read_if_there(config.folder / "config.json");
  const auto type = model.find("model_type");
  if (type == model.end() || !type->is_string()) return;
  const auto known = models.find(type->get<std::string>());
  config.family = known == models.end() ? type->get<std::string>() : known->second;
}

// "bos_token": "<s>", or an object with its "content".
std::optional<std::string> content_of(const Json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return std::nullopt;
  const auto content = found->find("content");
  if (content == found->end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

struct SpecialName {
  const char* field;
  Id Tokenizer::SpecialTokens::*id;
  std::vector<const char*> usual;
};

const std::vector<SpecialName>& special_names() {
  using Special = Tokenizer::SpecialTokens;
  static const std::vector<SpecialName> names = {
      {"unk_token", &Special::unk, {"[UNK]", "<unk>"}},
      {"bos_token", &Special::bos, {"<s>", "<|begin_of_text|>", "<|endoftext|>"}},
      {"eos_token", &Special::eos, {"</s>", "<|end_of_text|>", "<|endoftext|>"}},
      {"cls_token", &Special::cls, {"[CLS]"}},
      {"sep_token", &Special::sep, {"[SEP]"}},
      {"pad_token", &Special::pad, {"[PAD]", "<pad>"}},
      {"mask_token", &Special::mask, {"[MASK]", "<mask>"}}};
  return names;
}

void apply_config(const FolderConfig& config, TokenizerParts& parts) {
  for (const SpecialName& name : special_names()) {
    Id& id = parts.special_tokens.*name.id;
    if (const auto content = config.special(name.field)) id = parts.pipeline->id(*content);
    for (const char* usual : name.usual) {
      if (!id) id = parts.pipeline->id(usual);
    }
  }
  const JsonObject object = config.object();
  parts.clean_up_spaces =
      object.optional_boolean("clean_up_tokenization_spaces").value_or(parts.clean_up_spaces);
  if (const auto side = object.optional_text("truncation_side")) {
    parts.truncate_left = *side == "left";
  }
  if (const auto side = object.optional_text("padding_side")) parts.pad_left = *side == "left";
}

std::optional<TokenizerParts> read_files(const FolderConfig& config) {
  const std::string file = tokenizer_file(config.folder);
  if (file.empty()) return std::nullopt;
  if (file == "tokenizer.json") return read_tokenizer_json(config);
  if (file == "source.spm") return read_marian_files(config);
  if (file == "vocab.txt") return read_word_piece_files(config);
  if (file == "vocab.json") return read_byte_level_files(config);
  return read_sentencepiece_files(config, file);
}

}  // namespace

std::string tokenizer_file(const std::filesystem::path& folder) {
  for (const char* file : {"tokenizer.json", "source.spm", "vocab.txt", "vocab.json",
                           "tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
    const bool whole = std::string_view(file) != "vocab.json" || is_there(folder / "merges.txt");
    if (whole && is_there(folder / file)) return file;
  }
  return "";
}

JsonObject FolderConfig::object() const {
  return JsonObject(tokenizer, (folder / "tokenizer_config.json").string());
}

std::optional<std::string> FolderConfig::special(const char* name) const {
  const auto content = content_of(tokenizer, name);
  return content ? content : content_of(specials, name);
}

AddedToken FolderConfig::special_token(const char* name, const char* usual, bool lstrip) const {
  AddedToken token{.content = special(name).value_or(usual), .lstrip = lstrip, .special = true};
  for (const Json* json : {&specials, &tokenizer}) {
    const auto found = json->find(name);
    if (found == json->end() || !found->is_object()) continue;
    const JsonObject object(*found, folder.string(), name);
    token.lstrip = object.optional_boolean("lstrip").value_or(token.lstrip);
    token.rstrip = object.optional_boolean("rstrip").value_or(token.rstrip);
    token.single_word = object.optional_boolean("single_word").value_or(token.single_word);
    token.normalized = object.optional_boolean("normalized").value_or(token.normalized);
  }
  return token;
}

std::vector<AddedToken> more_added_tokens(const FolderConfig& config) {
  std::map<int64_t, AddedToken> tokens;
  const Json added = read_if_there(config.folder / "added_tokens.json");
  const JsonObject ids(added, (config.folder / "added_tokens.json").string());
  for (const std::string& content : ids.names()) {
    tokens[ids.integer(content, 0, INT32_MAX)] = {.content = content, .normalized = true};
  }
  if (const auto decoder = config.object().optional_object("added_tokens_decoder")) {
    for (const std::string& id : decoder->names()) {
      const JsonObject token = decoder->object(id);
      const bool is_id =
          !id.empty() && id.size() < 10 &&
          std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!is_id) decoder->refuse(id, "tokenizer: not an id", "whole numbers as names");
      tokens[std::stoll(id)] = {
          .content = token.text("content"),
          .single_word = token.optional_boolean("single_word").value_or(false),
          .lstrip = token.optional_boolean("lstrip").value_or(false),
          .rstrip = token.optional_boolean("rstrip").value_or(false),
          .normalized = token.optional_boolean("normalized").value_or(true),
          .special = token.optional_boolean("special").value_or(false)};
    }
  }
  std::vector<AddedToken> out;
  for (auto& [id, token] : tokens) out.push_back(std::move(token));
  return out;
}

Json to_json(const std::vector<AddedToken>& tokens) {
  Json out = Json::array();
  for (const AddedToken& token : tokens) {
    out.push_back({{"content", token.content},
                   {"single_word", token.single_word},
                   {"lstrip", token.lstrip},
                   {"rstrip", token.rstrip},
                   {"normalized", token.normalized},
                   {"special", token.special}});
  }
  return out;
}

Json template_json(const std::vector<std::string>& single, const std::vector<std::string>& pair,
                   const Vocabulary& vocabulary) {
  Json specials = Json::object();
  const auto items = [&](const std::vector<std::string>& parts) {
    Json out = Json::array();
    for (const std::string& part : parts) {
      const std::string name = part.substr(0, part.size() - 2);  // behind it is ":0" or ":1"
      const int type = part.back() - '0';
      if (name == "$A" || name == "$B") {
        out.push_back({{"Sequence", {{"id", name.substr(1)}, {"type_id", type}}}});
        continue;
      }
      out.push_back({{"SpecialToken", {{"id", name}, {"type_id", type}}}});
      const auto id = vocabulary.find(name);
      if (!id) {
        throw Error({.what = "tokenizer: a special token is not in the vocabulary",
                     .got = quote(name),
                     .expected = "a token of the vocabulary"});
      }
      specials[name] = {{"id", name}, {"ids", {*id}}, {"tokens", {name}}};
    }
    return out;
  };
  Json result = {{"type", "TemplateProcessing"}, {"single", items(single)}, {"pair", items(pair)}};
  result["special_tokens"] = specials;
  return result;
}

std::optional<TokenizerParts> read_tokenizer_folder(const std::filesystem::path& folder) {
  FolderConfig config{.folder = folder,
                      .tokenizer = read_if_there(folder / "tokenizer_config.json"),
                      .specials = read_if_there(folder / "special_tokens_map.json")};
  find_family(config);
  auto parts = read_files(config);
  if (parts) apply_config(config, *parts);
  return parts;
}

}  // namespace headwise::text
