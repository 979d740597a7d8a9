// Removes heads from a model. What is left is a model again, in a folder that still loads.
//
// docs/prune.md says what each form is for, and what loads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/evaluation.h"
#include "headwise/prune/prune_report.h"
#include "headwise/train/fine_tune.h"

namespace headwise {

enum class PruneForm {
  masked,   // the same shapes; the output projections of dropped heads are 0
  compact,  // without the dropped heads, however many are left in each layer
  uniform,  // the same, as an architecture whose layers have equally many heads
};
std::string_view to_string(PruneForm form);
PruneForm prune_form(std::string_view name);  // throws Error that lists the names
std::vector<std::string_view> prune_form_names();

/// Compensation for the outputs of removed heads.
enum class Compensation {
  none,
  mean,           // adds their mean output to the output bias
  least_squares,  // fits the output projection of the kept heads to the missing output
};
std::string_view to_string(Compensation compensation);
Compensation compensation(std::string_view name);  // throws Error that lists the names
std::vector<std::string_view> compensation_names();

struct SpeedOptions {
  int64_t tokens = 128;           // of a text, or what the models take at most
  size_t fewest = 5;              // passes of each model,
  double seconds = 2;             // and more of them until so much time was spent
  std::function<void()> check{};  // called between passes; may throw
};

/// Training after heads were removed.
struct Recovery {
  /// What is learned is the loss of the set; for fidelity, which has no labels, the hidden states
  /// of the original.
  EvaluationSet set{};
  FineTuneOptions training{};
  int64_t rounds = 1;  // of removing some heads, in their order, and training
};

struct PruneOptions {
  PruneForm form = PruneForm::compact;
  Compensation compensate = Compensation::none;
  /// Of least squares: this share of the mean square of the heads' outputs. None: what does best on
  /// texts that it was not fitted to.
  std::optional<double> ridge{};
  std::optional<Recovery> recover{};  // not of the masked form, whose zeros it would fill

  /// Token ids for the equivalence check and for compensation. None: random ids, which compensation
  /// refuses. Encoder-decoders have a target for each source.
  TokenBatch source{}, target{};
  uint64_t seed = 0;    // of random ids
  std::string order{};  // that chose the heads ("ablation", "gates"), for the model card

  /// The folder of the pruned model; it may not be there, or is an empty folder. It appears whole
  /// or not at all. Empty: a temporary folder that is gone with the model, see Model::save.
  std::filesystem::path out{};

  // What is measured of the model before and after, for the report and the model card.
  const EvaluationSet* evaluation = nullptr;  // its loss on these examples
  std::optional<SpeedOptions> speed{};        // its time
  /// The model that it is compared with and learns from, if heads are removed from one that was
  /// trained since. Null: the model itself.
  const Model* original = nullptr;
  /// Adds more to the report, before the folder gets its name. Nothing is left if this throws.
  std::function<void(const Model& pruned, PruneReport& report)> measure{};

  /// Called before each step with its name, and while it trains ("steps") with what is done and all
  /// of it. May throw to stop.
  std::function<void(std::string_view step, int64_t done, int64_t total)> progress{};
};

/// A pruned model as it was read back from its folder.
class PrunedModel : public Model {
 public:
  PrunedModel(Model model, PruneReport report)
      : Model(std::move(model)), report_(std::move(report)) {}
  const PruneReport& report() const { return report_; }

 private:
  PruneReport report_;
};

/// Throws Error if the architecture does not support the form.
void check_form(const Model& model, PruneForm form);

/// The model without these heads ("L3.H1", "L3"). Heads that are left keep their names, except in
/// the uniform form. Its folder is a copy of the model's; README.md becomes a model card of the
/// pruned model, see model_card.h. It is written, read back and compared with the model with gates
/// of 0; with compensation, with its masked form (masked: with the compact one). Throws Error if
/// they differ by more than rounding, for heads that are not there, and for a form that the
/// architecture cannot have. See also headwise/plan/follow_plan.h.
PrunedModel prune(const Model& model, std::span<const std::string> drop,
                  const PruneOptions& options = {});

/// The mean over texts of 1 - cosine between the pooled hidden states of two models.
double infidelity(const Model& model, const Model& original, const TokenBatch& source,
                  const TokenBatch& target = {});

SpeedComparison compare_speed(const Model& before, const Model& after, int64_t texts,
                              const SpeedOptions& options);

/// At batches of 1 and 8 texts.
std::vector<SpeedComparison> compare_speed(const Model& before, const Model& after,
                                           const SpeedOptions& options = {});

}  // namespace headwise
