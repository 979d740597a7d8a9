// What tokenizer_config.json says over tokenizer.json: transformers' classes build these parts
// anew.
#include <functional>
#include <string>

#include "text/pipeline.h"

namespace headwise::text {
namespace {

using Json = nlohmann::json;
using Change = std::function<void(Json&)>;

/// Every part of the type in a field of the file, those in sequences too.
void for_each_part(Json& in, const std::string& type, const Change& change) {
  if (in.is_array()) {
    for (Json& part : in) for_each_part(part, type, change);
  } else if (in.is_object()) {
    if (const auto found = in.find("type"); found != in.end() && *found == type) change(in);
    for (Json& inside : in) {
      if (inside.is_array()) for_each_part(inside, type, change);
    }
  }
}

void for_each_part(Json& file, const char* field, const std::string& type, const Change& change) {
  if (const auto found = file.find(field); found != file.end()) {
    for_each_part(*found, type, change);
  }
}

void build_bert(const JsonObject& config, Json& file) {
  for_each_part(file, "normalizer", "BertNormalizer", [&](Json& part) {
    const auto strip = config.optional_boolean("strip_accents");
    part["lowercase"] = config.optional_boolean("do_lower_case").value_or(true);
    part["handle_chinese_chars"] = config.optional_boolean("tokenize_chinese_chars").value_or(true);
    part["strip_accents"] = strip ? Json(*strip) : Json(nullptr);
  });
}

void build_byte_level(const JsonObject& config, Json& file) {
  const bool prefix = config.optional_boolean("add_prefix_space").value_or(false);
  for_each_part(file, "pre_tokenizer", "ByteLevel",
                [&](Json& part) { part["add_prefix_space"] = prefix; });
  for_each_part(file, "post_processor", "RobertaProcessing", [&](Json& part) {
    part["add_prefix_space"] = prefix;
    part["trim_offsets"] = config.optional_boolean("trim_offsets").value_or(true);
  });
}

/// Only what is said: files from before Metaspace say the same in other ways, and are left alone.
void build_metaspace(const JsonObject& config, bool first_only, Json& file) {
  const auto prefix = config.optional_boolean("add_prefix_space");
  if (!prefix || !config.has("tokenizer_class")) return;
  const Change change = [&](Json& part) {
    part.erase("add_prefix_space");
    part["prepend_scheme"] = !*prefix ? "never" : first_only ? "first" : "always";
  };
  for_each_part(file, "pre_tokenizer", "Metaspace", change);
  for_each_part(file, "decoder", "Metaspace", change);
}

}  // namespace

void build_as_class(const FolderConfig& config, nlohmann::json& file) {
  const JsonObject object = config.object();
  const std::string& family = config.family;
  if (config.takes_json_as_it_is) return;
  if (family == "bert" || family == "mpnet") build_bert(object, file);
  if (family == "gpt2" || family == "roberta" || family == "qwen2") build_byte_level(object, file);
  if (family == "llama") {
    build_metaspace(object, !object.optional_boolean("legacy").value_or(false), file);
  }
  if (family == "xlm-roberta") build_metaspace(object, false, file);
}

}  // namespace headwise::text
