// Reads modules.json, and the modules that it names.
#include "model/sentence_modules.h"

#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/io/json.h"
#include "headwise/io/tensor_file.h"
#include "io/file.h"
#include "model/weight_reader.h"

namespace headwise {
namespace {

DenseModule read_dense(const std::filesystem::path& all, const std::filesystem::path& place) {
  const std::filesystem::path folder = all / place, file = folder / "config.json";
  const nlohmann::json json = read_json(file);
  const JsonObject object(json, file.string());
  const std::string activation = object.optional_text("activation_function").value_or("");
  DenseModule dense{.place = place};
  if (activation.ends_with(".Tanh")) {
    dense.activation = Activation::tanh;
  } else if (activation.ends_with(".ReLU")) {
    dense.activation = Activation::relu;
  } else if (activation.ends_with(".GELU")) {
    dense.activation = Activation::gelu;
  } else if (!activation.empty() && !activation.ends_with(".Identity")) {
    object.refuse("activation_function", "the activation function is not known",
                  "Identity, Tanh, ReLU or GELU of torch.nn.modules");
  }
  WeightReader reader(TensorFiles::open(folder), {});
  const bool bias = object.optional_boolean("bias").value_or(true);
  const int64_t outputs = object.integer("out_features", 1);
  const int64_t inputs = object.integer("in_features", 1);
  dense.linear =
      Linear(reader, {.tensor = "linear"}, {.outputs = outputs, .inputs = inputs, .bias = bias});
  dense.weights = reader.floats(reader.take("linear.weight", {outputs, inputs}));
  return dense;
}

SentenceModule read_module(const JsonObject& module, const std::filesystem::path& folder) {
  const std::string type = module.text("type");
  const auto inside =
      std::filesystem::path(module.optional_text("path").value_or("")).lexically_normal();
  if (inside.is_absolute() || (!inside.empty() && *inside.begin() == "..")) {
    module.refuse("path", "a module lies outside the model's folder", "a folder inside it");
  }
  if (type.ends_with(".Pooling")) return PoolingModule{read_pooling(folder / inside), inside};
  if (type.ends_with(".Dense")) return read_dense(folder, inside);
  if (type.ends_with(".Normalize")) return NormalizeModule{};
  module.refuse("type", "a module of the sentence embedding is not known",
                "Transformer, Pooling, Dense or Normalize of sentence_transformers");
}

}  // namespace

std::vector<SentenceModule> read_sentence_modules(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "modules.json";
  if (!is_there(file)) return {};
  const nlohmann::json json = nlohmann::json{{"modules", read_json(file)}};
  std::vector<SentenceModule> modules;
  for (const JsonObject& module : JsonObject(json, file.string()).objects("modules")) {
    if (module.text("type").ends_with(".Transformer")) continue;  // the model itself
    modules.push_back(read_module(module, folder));
  }
  if (modules.empty() || !std::holds_alternative<PoolingModule>(modules.front())) {
    throw Error({.what = "the sentence embedding pools no hidden states",
                 .where = file.string(),
                 .expected = "a Pooling after the Transformer"});
  }
  return modules;
}

}  // namespace headwise
