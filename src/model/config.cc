// From config.json to a ModelConfig: what all architectures share; their own fields are read in
// families/.
#include "headwise/model/config.h"

#include <fmt/format.h>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "io/file.h"
#include "model/compact_config.h"
#include "model/config_fields.h"
#include "model/config_heads.h"
#include "model/families/family.h"

namespace headwise {
namespace {

/// "headwise_bert" is a bert whose heads transformers does not know: by this name it refuses it.
std::string architecture_of(std::string model_type) {
  if (model_type.starts_with(kHeadwisePrefix)) model_type.erase(0, kHeadwisePrefix.size());
  return model_type;
}

Task read_task(const JsonObject& object, const Family& family, const std::string& architecture) {
  if (architecture.empty()) return Task::hidden;
  if (const ModelClass* const named = find_class(family, architecture)) return named->task;
  std::vector<std::string> known;
  for (const ModelClass& named : family.classes) {
    known.push_back(fmt::format("{}{}", family.name, named.ending));
  }
  object.refuse("architectures", "the class of the model is not known",
                fmt::format("one of {}", fmt::join(known, ", ")));
}

void read_labels(ConfigFields& fields, ModelConfig& config) {
  const JsonObject& object = fields.object();
  if (const auto labels = object.optional_object("id2label")) {
    config.labels.resize(labels->names().size());
    for (size_t id = 0; id < config.labels.size(); ++id) {
      config.labels[id] = labels->text(std::to_string(id));
    }
  } else {
    const int64_t count = object.optional_integer("num_labels", 1, 1 << 20).value_or(2);
    for (int64_t id = 0; id < count; ++id) config.labels.push_back(fmt::format("LABEL_{}", id));
  }
  const std::string problem = fields.text("problem_type", "");
  if (!problem.empty() && problem != "regression" && problem != "single_label_classification" &&
      problem != "multi_label_classification") {
    object.refuse("problem_type", "the kind of classification is not known",
                  "regression, single_label_classification or multi_label_classification");
  }
  config.regression = problem == "regression" || (problem.empty() && config.labels.size() == 1);
  config.multi_label = problem == "multi_label_classification";
}

}  // namespace

std::string_view to_string(Task task) {
  switch (task) {
    case Task::hidden:
      return "hidden states";
    case Task::masked_lm:
      return "masked language model";
    case Task::causal_lm:
      return "causal language model";
    case Task::seq2seq_lm:
      return "sequence-to-sequence language model";
    case Task::classify:
      return "text classification";
    case Task::classify_tokens:
      return "token classification";
    case Task::answer:
      return "question answering";
    case Task::detect:
      return "replaced-token detection";
  }
  return "";
}

ModelConfig parse_config(std::string_view text, const std::string& where,
                         const ConfigOptions& options) {
  const nlohmann::json json = parse_json(text, where);
  const JsonObject object(json, where);
  ConfigFields fields(object);
  ModelConfig config{.model_type = architecture_of(object.text(fields.use("model_type")))};
  const Family* const family = find_family(config.model_type);
  if (family == nullptr) {
    std::vector<std::string_view> known;
    for (const Family& other : families()) known.push_back(other.type);
    object.refuse("model_type", "the architecture is not known",
                  fmt::format("one of {}", fmt::join(known, ", ")));
  }
  if (object.has("architectures")) {
    const auto names = object.texts("architectures");
    if (!names.empty()) config.architecture = names.front();
  }
  config.task = read_task(object, *family, config.architecture);
  config.dtype = fields.text("dtype", fields.text("torch_dtype", ""));
  config.pad = fields.token("pad_token_id");
  config.bos = fields.token("bos_token_id");
  config.eos = fields.tokens("eos_token_id");
  config.decoder_start = fields.token("decoder_start_token_id");
  const auto forced = fields.tokens("forced_eos_token_id");
  if (!forced.empty()) config.forced_eos = forced.front();
  config.tied = fields.boolean("tie_word_embeddings", true);
  read_labels(fields, config);
  fields.must_be("add_cross_attention", false);
  family->read(fields, config);
  set_heads(fields, config);
  fields.finish(options.ignore_fields);
  return config;
}

ModelConfig read_config(const std::filesystem::path& folder, const ConfigOptions& options) {
  const std::filesystem::path file = folder / "config.json";
  return parse_config(read_file(file, kLargestConfig), file.string(), options);
}

}  // namespace headwise
