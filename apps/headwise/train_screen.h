// What people see of a training on standard error: what is trained, how it goes, what it reached.
#pragma once

#include <chrono>
#include <string>

#include "headwise/train/trainer.h"
#include "progress.h"

namespace headwise::program {

/// "loss 2.1030, perplexity 8.191, accuracy 61.20 %, BLEU 31.04"
std::string figures(const Evaluation& evaluation, TrainTask task);

/// Silent if quiet; the line of progress only in a terminal.
class TrainScreen : public TrainObserver {
 public:
  /// The settings must outlive it.
  TrainScreen(const TrainSettings& settings, bool quiet);

  void remark(const std::string& text) override { line(text); }
  void planned(const TrainPlan& plan) override;
  void stepped(const TrainProgress& progress) override;
  void evaluated(const Evaluation& evaluation, bool best) override;
  bool interrupted() override;

 private:
  using Clock = std::chrono::steady_clock;

  void line(const std::string& text);

  const TrainSettings& settings_;
  bool quiet_, told_time_ = false;
  StatusLine progress_;
  std::string last_evaluation_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace headwise::program
