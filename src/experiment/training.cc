// Shows a training as the progress of a trial.
#include "experiment/training.h"

#include <exception>
#include <string>
#include <utility>

#include "headwise/core/error.h"

namespace headwise {
namespace {

using nlohmann::json;

/// A progress that throws stops the training at a checkpoint.
class TrialObserver : public TrainObserver {
 public:
  explicit TrialObserver(TrialContext& context) : context_(context) {}

  void stepped(const TrainProgress& progress) override {
    try {
      context_.progress(progress.step, progress.steps);
    } catch (...) {
      stopped_ = std::current_exception();
    }
  }
  bool interrupted() override { return stopped_ != nullptr; }
  void rethrow() const {
    if (stopped_) std::rethrow_exception(stopped_);
  }

 private:
  TrialContext& context_;
  std::exception_ptr stopped_;
};

}  // namespace

TrainSummary train_in_trial(json settings, const std::filesystem::path& folder,
                            TrialContext& context) {
  for (auto& [part, value] : settings.at("data").items()) {
    if (part != "train" && part != "validation" && part != "test") continue;
    for (json& file : value.is_object() ? value : value = json::array({value})) {
      const auto name = file.get<std::string>();
      if (std::filesystem::path(name).is_relative()) file = context.data(name).string();
    }
  }
  TrialObserver observer(context);
  const std::optional<TrainSummary> summary = train(
      parse_train_settings(settings.dump(), "settings of a trial", std::filesystem::current_path()),
      folder, true, observer);
  observer.rethrow();
  if (!summary) throw Error({.what = "experiment: a training was stopped"});
  return *summary;
}

}  // namespace headwise
