// An architecture family: everything that its models have in common and others do not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/text/tokenizer.h"
#include "model/config_fields.h"
#include "model/init_std.h"
#include "model/weight_names.h"

namespace headwise {

/// A class of transformers, and the output layer that its models have. `prefix` is the base
/// model's.
struct ModelClass {
  std::string_view ending{};  // of its name, after the family's: "ForMaskedLM"
  Task task = Task::hidden;
  TaskNames (*output)(const ModelConfig& config, const std::string& prefix) = nullptr;
  bool encoder_only = false;  // of an encoder-decoder
};

/// Where training drops values, besides attention weights and embeddings.
struct DropoutPlaces {
  bool attention_branch = true;
  bool in_feed_forward = false;  // of activated values
  bool final = false;            // after the final norm
};

/// How many heads every layer has.
struct UniformHeads {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
};

/// How a model of a family is made from nothing, if it can be.
struct NewModel {
  std::vector<Task> tasks{};      // that it is trained for; none: it cannot be made
  std::string_view activation{};  // unless another one is given
  PositionKind positions = PositionKind::none;
  bool glu = false;
  /// Writes sizes and special tokens into a config.json.
  void (*write)(nlohmann::ordered_json& json, const NewModelSizes& sizes,
                const Tokenizer::SpecialTokens& special) = nullptr;
};

struct Family {
  std::string_view type{};  // "model_type" in config.json: "bert"
  std::string_view name{};  // how the names of its classes begin: "Bert"
  void (*read)(ConfigFields& fields, ModelConfig& config) = nullptr;
  std::vector<ModelClass> classes{};  // the usual one of each task first
  WeightNames names{};

  // How the names of tensors end that checkpoints have, but no layer reads: constants that older
  // versions of transformers saved, and parameters without use here.
  std::vector<std::string_view> buffers{}, unused{};

  // For training.
  InitStd (*init_std)(const ModelConfig& config, const JsonObject& json) = usual_init_std;
  DropoutPlaces dropouts{};
  bool padding_row = true;  // the embedding's row of "pad_token_id" stays 0
  NewModel new_model{};

  /// Writes the number of heads of every layer into a config.json; null if the architecture has no
  /// field for the width of a head. Throws Error for a model that this cannot describe.
  void (*write_uniform)(nlohmann::ordered_json& json, const ModelConfig& config,
                        const UniformHeads& uniform) = nullptr;
};

/// Every family, in the order of messages. The list is in families.cc.
const std::vector<Family>& families();

/// By "model_type"; null: the architecture is not known.
const Family* find_family(std::string_view type);

/// The family of a config that was read.
const Family& family_of(const ModelConfig& config);

/// By the full name of the class, "BertForMaskedLM"; null: the family has no such class.
const ModelClass* find_class(const Family& family, std::string_view architecture);

/// Whether a config names a class that has only the encoder of an encoder-decoder.
bool is_encoder_only(const ModelConfig& config);

/// The usual class for a task; null: there is none.
const ModelClass* class_for(const Family& family, Task task);

/// The output layer of a model. `prefix` is the base model's, as found in the checkpoint.
TaskNames task_names(const ModelConfig& config, const std::string& prefix);

}  // namespace headwise
