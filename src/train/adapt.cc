// Chooses the class of transformers for a task, and writes class and labels into a config.
#include "train/adapt.h"

#include <fmt/format.h>

#include <vector>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "model/families/family.h"

namespace headwise {
namespace {

std::string class_name(const ModelConfig& config, Task task) {
  const Family& family = family_of(config);
  const ModelClass* const found = class_for(family, task);
  if (found != nullptr) return fmt::format("{}{}", family.name, found->ending);
  throw Error({.what = "the architecture cannot be trained for this task",
               .where = "task",
               .got = fmt::format("{} for {}", config.model_type, to_string(task)),
               .expected = "a task that transformers has a class for"});
}

void set_labels(nlohmann::json& json, const std::vector<std::string>& labels) {
  nlohmann::json names = nlohmann::json::object(), ids = nlohmann::json::object();
  for (size_t id = 0; id < labels.size(); ++id) {
    names[std::to_string(id)] = labels[id];
    ids[labels[id]] = id;
  }
  json["id2label"] = names;
  json["label2id"] = ids;
  json.erase("num_labels");
}

}  // namespace

Adapted adapt_config(const std::string& text, const std::string& where, const ModelConfig& saved,
                     const TrainFor& what, const ConfigOptions& options) {
  const bool classifies = what.task == Task::classify || what.task == Task::classify_tokens;
  std::vector<std::string> labels = classifies ? saved.labels : std::vector<std::string>();
  if (classifies && !what.labels.empty()) labels = what.labels;
  if (what.regression) labels = {"LABEL_0"};
  const bool other_task = saved.task != what.task;
  const bool other_labels = classifies && labels != saved.labels;
  const bool other_problem =
      classifies && (saved.regression != what.regression || saved.multi_label);
  if (!other_task && !other_labels && !other_problem) return {text, saved, false};
  nlohmann::json json = parse_json(text, where);
  if (other_task) json["architectures"] = {class_name(saved, what.task)};
  if (classifies) {
    set_labels(json, labels);
    json["problem_type"] = what.regression ? "regression" : "single_label_classification";
  }
  Adapted adapted{.json = json_text(json, 2),
                  .fresh = other_task || labels.size() != saved.labels.size() || other_problem};
  adapted.config = parse_config(adapted.json, where, options);
  return adapted;
}

void check_class(const ModelConfig& saved, Task task) {
  if (saved.task != task) (void)class_name(saved, task);
}

void check_trainable(const ModelConfig& config) {
  const auto refuse = [&](const char* what, const char* expected) {
    throw Error({.what = what,
                 .where = "architectures",
                 .got = config.architecture.empty() ? config.model_type : config.architecture,
                 .expected = expected});
  };
  if (config.task == Task::answer || config.task == Task::detect) {
    refuse("there is no loss for this task", "a language model, classification or hidden states");
  }
  if (config.task == Task::hidden && config.encoder_decoder()) {
    refuse("hidden states of an encoder-decoder have no loss", "its class with an output layer");
  }
  if (config.multi_label) refuse("several labels per text have no loss", "one label per text");
  if (config.regression && config.task == Task::classify && config.labels.size() != 1) {
    refuse("regression is to one number", "one label");
  }
}

}  // namespace headwise
