// The list of architecture families. A new one is a file beside this one and two lines here.
#include <algorithm>
#include <string>

#include "model/families/family.h"

namespace headwise {

Family bert_family();
Family distilbert_family();
Family electra_family();
Family gpt2_family();
Family gpt_neox_family();
Family llama_family();
Family marian_family();
Family mistral_family();
Family mpnet_family();
Family normless_family();
Family qwen2_family();
Family qwen3_family();
Family roberta_family();
Family smollm3_family();
Family t5_family();
Family xlm_roberta_family();

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      bert_family(),     distilbert_family(), electra_family(), gpt2_family(),
      gpt_neox_family(), llama_family(),      marian_family(),  mistral_family(),
      mpnet_family(),    normless_family(),   qwen2_family(),   qwen3_family(),
      roberta_family(),  smollm3_family(),    t5_family(),      xlm_roberta_family(),
  };
  return all;
}

const Family* find_family(std::string_view type) {
  const auto found = std::ranges::find(families(), type, &Family::type);
  return found == families().end() ? nullptr : &*found;
}

const Family& family_of(const ModelConfig& config) { return *find_family(config.model_type); }

const ModelClass* find_class(const Family& family, std::string_view architecture) {
  if (!architecture.starts_with(family.name)) return nullptr;
  const auto found = std::ranges::find(family.classes, architecture.substr(family.name.size()),
                                       &ModelClass::ending);
  return found == family.classes.end() ? nullptr : &*found;
}

bool is_encoder_only(const ModelConfig& config) {
  const ModelClass* const named = find_class(family_of(config), config.architecture);
  return named != nullptr && named->encoder_only;
}

const ModelClass* class_for(const Family& family, Task task) {
  const auto found = std::ranges::find(family.classes, task, &ModelClass::task);
  return found == family.classes.end() ? nullptr : &*found;
}

TaskNames task_names(const ModelConfig& config, const std::string& prefix) {
  if (config.task == Task::hidden) return {};
  return find_class(family_of(config), config.architecture)->output(config, prefix);
}

}  // namespace headwise
