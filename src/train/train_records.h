// The records of log.jsonl: one of every step, of its heads if asked for, and of every evaluation.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "headwise/train/trainable_model.h"
#include "headwise/train/trainer.h"

namespace headwise {

struct StepRecord {
  int64_t step = 0;  // counted from 1
  Loss loss{};       // sums
  double gradient_norm = 0, rate = 0;
  double epoch = 0;  // epochs before it
  int64_t tokens = 0;
  double step_seconds = 0;
  double seconds = 0;                                         // since the training began
  std::vector<std::pair<std::string, int64_t>> open_heads{};  // by attention, of learned gates
};

struct EvaluationRecord {
  Evaluation evaluation{};
  TrainTask task = TrainTask::causal_lm;
  double epoch = 0;
  bool best = false;
  double seconds = 0;
};

/// What an evaluation found, for the log and the summary.
nlohmann::ordered_json figures_of(const Evaluation& evaluation, TrainTask task);

/// One line of JSON.
std::string to_record(const StepRecord& record);
std::string to_record(int64_t step, const nlohmann::ordered_json& heads);
std::string to_record(const EvaluationRecord& record);

}  // namespace headwise
