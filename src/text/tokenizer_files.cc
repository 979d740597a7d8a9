// Which of a folder's files make its tokenizer, and what tokenizer_config.json says about it.
#include <filesystem>
#include <string>
#include <utility>

#include "io/json.h"
#include "text/pipeline.h"

namespace headwise::text {
namespace {

using Json = nlohmann::json;
using Id = std::optional<int32_t>;

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

// "bos_token": "<s>", or an object with its "content".
std::optional<std::string> token_content(const Json& config, const char* field) {
  const auto found = config.find(field);
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return std::nullopt;
  const auto content = found->find("content");
  if (content == found->end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

Json read_if_there(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return Json::object();
  Json json = read_json(file);
  const JsonObject check(json, file.string());  // throws if it is no object
  return json;
}

void read_config(const std::filesystem::path& folder, TokenizerParts& parts) {
  const Json config = read_if_there(folder / "tokenizer_config.json");
  const Json map = read_if_there(folder / "special_tokens_map.json");
  for (const SpecialName& name : special_names()) {
    Id& id = parts.special_tokens.*name.id;
    for (const Json* json : {&config, &map}) {
      const auto content = token_content(*json, name.field);
      if (!id && content) id = parts.pipeline->id(*content);
    }
    for (const char* usual : name.usual) {
      if (!id) id = parts.pipeline->id(usual);
    }
  }
  const JsonObject object(config, (folder / "tokenizer_config.json").string());
  if (const auto clean = object.optional_boolean("clean_up_tokenization_spaces")) {
    parts.clean_up_spaces = *clean;
  }
  if (const auto side = object.optional_text("truncation_side")) {
    parts.truncate_left = *side == "left";
  }
  if (const auto side = object.optional_text("padding_side")) parts.pad_left = *side == "left";
}

}  // namespace

std::optional<TokenizerParts> read_tokenizer_folder(const std::filesystem::path& folder) {
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  std::optional<TokenizerParts> parts;
  if (has("tokenizer.json")) parts = read_tokenizer_json(folder / "tokenizer.json");
  if (parts) read_config(folder, *parts);
  return parts;
}

}  // namespace headwise::text
