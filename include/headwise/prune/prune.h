// Removes heads from a model and writes a folder that still loads.
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
#include <vector>

#include "headwise/model/model.h"
#include "headwise/prune/prune_report.h"

namespace headwise {

enum class PruneForm {
  masked,   // the same shapes; the output projections of dropped heads are 0
  compact,  // without the dropped heads, however many are left in each layer
  uniform,  // the same, as an architecture whose layers have equally many heads
};
std::string_view to_string(PruneForm form);
PruneForm prune_form(std::string_view name);  // throws Error that lists the names

/// Compensation for the outputs of removed heads.
enum class Compensation {
  none,
  mean,           // adds their mean output to the output bias
  least_squares,  // fits the output projection of the kept heads to the missing output
};
std::string_view to_string(Compensation compensation);
Compensation compensation(std::string_view name);  // throws Error that lists the names

struct PruneOptions {
  PruneForm form = PruneForm::compact;
  Compensation compensate = Compensation::none;
  /// Of least squares: this share of the mean square of the heads' outputs. None: what does best on
  /// texts that it was not fitted to.
  std::optional<double> ridge{};

  /// Token ids for the equivalence check and for compensation. None: random ids, which compensation
  /// refuses. Encoder-decoders have a target for each source.
  TokenBatch source{}, target{};
  uint64_t seed = 0;  // of random ids
  LoadOptions load{};
  std::string order{};  // that chose the heads ("ablation", "gates"), for the model card

  /// Called with the folder of the pruned model after the check and before it is renamed to `out`.
  /// Changes become part of it; if this throws, nothing is left.
  std::function<void(const std::filesystem::path& folder)> finish{};

  /// Called with the finished model, before its folder gets its name. Adds what it measures to the
  /// report, of which the model card is written. Nothing is left if this throws.
  std::function<void(const Model& pruned, const std::filesystem::path& folder, PruneReport& report)>
      measure{};

  /// Called before each step with its name. May throw to stop.
  std::function<void(std::string_view step)> progress{};
};

/// A pruned model as it was read back from its folder.
struct PrunedModel {
  PruneReport report{};
  Model model;
};

/// Throws Error if the architecture does not support the form.
void check_form(const Model& model, const std::filesystem::path& folder, PruneForm form,
                const LoadOptions& load = {});

/// Writes a copy of the model's folder without these heads ("L3.H1", "L3"), whole or not at all;
/// `out` may not be there, or is an empty folder. Heads that are left keep their names, except in
/// the uniform form. README.md becomes a model card of the pruned model, see model_card.h. Before
/// the folder gets its name it is read back and compared with the model
/// with gates of 0; with compensation, with its masked form (masked: with the compact one). Throws
/// Error if they differ by more than rounding, for heads that are not there, and for a form that
/// the architecture cannot have.
PrunedModel prune(const Model& model, const std::filesystem::path& folder,
                  std::span<const std::string> drop, const std::filesystem::path& out,
                  const PruneOptions& options);

/// The mean over texts of 1 - cosine between the pooled hidden states of two models. `folder` is
/// where pooling is described, if it is.
double infidelity(const Model& model, const Model& original, const std::filesystem::path& folder,
                  const TokenBatch& source, const TokenBatch& target = {});

struct SpeedOptions {
  int64_t tokens = 128;           // of a text, or what the models take at most
  size_t fewest = 5;              // passes of each model,
  double seconds = 2;             // and more of them until so much time was spent
  std::function<void()> check{};  // called between passes; may throw
};

SpeedComparison compare_speed(const Model& before, const Model& after, int64_t texts,
                              const SpeedOptions& options);

/// At batches of 1 and 8 texts.
std::vector<SpeedComparison> compare_speed(const Model& before, const Model& after,
                                           const SpeedOptions& options = {});

}  // namespace headwise
