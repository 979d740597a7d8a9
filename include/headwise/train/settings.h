// The settings of a training: one strict JSON file, described in docs/train.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

enum class TrainTask { causal_lm, masked_lm, classification, similarity, translation };
std::string_view to_string(TrainTask task);  // as the settings say it

/// A mixture of heads: `shared` heads for every row, and `active` ones of the others.
struct RoutingSettings {
  int64_t shared = 0, active = 0;
  double balance = 0.01;  // weight of the loss that spreads rows over heads
};

/// A new model. Its vocabulary is the largest: small texts have fewer tokens.
struct ScratchSettings : NewModelSizes {
  std::string architecture{};  // bert, gpt2, llama or marian
  bool same_heads = false;     // all heads of a layer begin with the same weights
  std::vector<std::pair<std::string, std::string>> fixed{};  // "L0.H0", "previous"
  std::optional<RoutingSettings> routing{};
};

/// One part of the data: several files are read one after the other; for translation there are
/// two, and lines of both belong together.
struct DataFiles {
  std::vector<std::filesystem::path> files{};

  bool empty() const { return files.empty(); }
};

struct DataSettings {
  DataFiles train{}, validation{}, test{};
  int64_t length = 128;         // the most tokens of a text
  bool default_length = true;   // not given: a loaded model of fewer positions lowers it
  bool truncate = false;        // texts that are longer are cut, and not refused
  bool document_lines = false;  // causal_lm: each line is a document, and not each file
};

struct OptimizerSettings {
  double rate = 5e-4, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.01;
  double clip = 1;  // the largest norm of all gradients together; 0: any
};

enum class ScheduleKind { constant, linear, cosine, inverse_sqrt };

struct ScheduleSettings {
  ScheduleKind kind = ScheduleKind::linear;
  int64_t warmup = 0;  // steps in which the rate rises from 0
};

enum class Metric { loss, accuracy, bleu };
std::string_view to_string(Metric metric);

struct EvaluateSettings {
  int64_t every = 0;  // steps; 0: after every epoch
  Metric metric = Metric::loss;
  int64_t beam = 5;
  int64_t patience = 0;  // evaluations without a better one before it stops; 0: never
};

struct TrainSettings {
  TrainTask task = TrainTask::causal_lm;
  std::optional<ScratchSettings> scratch{};  // a new model, or
  std::filesystem::path model{};             // the folder of one that is trained further
  DataSettings data{};
  int64_t tokens_per_batch = 2000;
  int64_t accumulate = 1;  // batches per step
  int64_t epochs = 0;      // one of these two is given
  int64_t steps = 0;
  uint64_t seed = 0;
  OptimizerSettings optimizer{};
  ScheduleSettings schedule{};
  float dropout = 0.1f, attention_dropout = 0, head_dropout = 0, label_smoothing = 0;
  std::optional<LearnedGates> gates{};  // none: all gates are 1
  int64_t log_heads_every = 0;          // steps; 0: never
  std::vector<std::string> freeze{};    // "embeddings", "head", "L0", "enc.L1", "cross.L0"
  EvaluateSettings evaluate{};
  int64_t average = 0;           // how many of the last evaluated states are averaged in the end
  int64_t checkpoint_every = 0;  // steps; 0: about once a minute; after evaluations in any case

  /// The settings as one line of JSON without the seed: the same for the same training, wherever
  /// its files lie.
  std::string identity{};
  /// The whole settings as JSON, with absolute paths.
  std::string text{};
};

/// Throws Error that names the field for what is missing, unknown or out of range.
TrainSettings read_train_settings(const std::filesystem::path& file);

/// The same from its text; relative paths are relative to `folder`, `where` names it in messages.
TrainSettings parse_train_settings(std::string_view text, const std::string& where,
                                   const std::filesystem::path& folder);

}  // namespace headwise
