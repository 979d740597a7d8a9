// Training from settings to a Hugging Face folder: what `headwise train` does.
//
// The folder gets the model (config.json, model.safetensors, its tokenizer), settings.json,
// log.jsonl with a record per step, summary.json, and until the training is done a checkpoint/ from
// which it can be resumed. A training that was killed and resumed ends with the same bits as one
// that was not, on any number of threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/train/settings.h"

namespace headwise {

/// The quality of a model on some data.
struct Evaluation {
  int64_t step = 0;
  double loss = 0;  // the mean over what is scored: tokens, texts or pairs
  int64_t scored = 0;
  std::optional<double> accuracy{};  // not of similarity
  std::optional<double> bleu{};      // of translation, where it was asked for

  double value(Metric metric) const;
};

/// What is about to be trained.
struct TrainPlan {
  ModelConfig config{};
  int64_t parameters = 0, trained_parameters = 0;
  int64_t examples = 0, validation_examples = 0, test_examples = 0;
  int64_t tokens_per_epoch = 0;
  int64_t batches_per_epoch = 0;  // of the first one
  double epochs = 0;
  int64_t steps = 0;
  int64_t resumed_at = 0;  // the step after which it goes on; 0: from the beginning
};

struct TrainProgress {
  int64_t step = 0, steps = 0;
  double epoch = 0;
  double loss = 0;  // a running mean
  double tokens_per_second = 0;
  double seconds = 0, seconds_left = 0;
};

/// Which state of the model was kept in the end.
enum class Kept { last, best, average };
std::string_view to_string(Kept kept);

struct TrainSummary {
  TrainPlan plan{};
  // Of the model as it is saved: without heads whose learned gates are 0.
  ModelConfig config{};
  int64_t parameters = 0;
  int64_t steps = 0;
  int64_t tokens = 0;
  double seconds = 0;            // with evaluations
  double tokens_per_second = 0;  // without
  bool stopped_early = false;
  Kept kept = Kept::last;
  std::vector<int64_t> kept_steps{};  // several of an average
  std::optional<Evaluation> validation{}, test{};
  std::map<std::string, std::string> files{};  // "data.train": its size and hash, and so on
};

/// One JSON document: summary.json.
std::string to_json(const TrainSummary& summary, const TrainSettings& settings);

/// Callbacks of a training. The default of each does nothing.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void remark(const std::string&) {}
  virtual void planned(const TrainPlan&) {}
  virtual void stepped(const TrainProgress&) {}
  virtual void evaluated(const Evaluation&, bool /*best*/) {}
  /// Polled often. True: write a checkpoint and stop.
  virtual bool interrupted() { return false; }
};

/// Nothing if it was interrupted; it can then be resumed. `folder` must be new or empty, or hold
/// the same training if `resume` is set. Throws Error for settings, data and models that do not go
/// together, and when the loss is no longer finite.
std::optional<TrainSummary> train(const TrainSettings& settings,
                                  const std::filesystem::path& folder, bool resume,
                                  TrainObserver& observer);

/// summary.json of a training that is done, or nothing. Throws Error that says what differs if it
/// was done with other settings, data or another model.
std::optional<std::string> read_summary(const TrainSettings& settings,
                                        const std::filesystem::path& folder);

}  // namespace headwise
