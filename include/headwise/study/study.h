// The whole pipeline on one model: observe, judge, plan, prune, report.
//
// Work is counted in passes: a pass is one forward pass of the unchanged model over the texts of
// the study. A study spends examples and draws only while they can change a conclusion, and stops
// when its budget of passes is spent. docs/study.md describes the files that it leaves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/model/model.h"
#include "headwise/observe/evidence.h"
#include "headwise/observe/observe.h"
#include "headwise/observe/text_data.h"
#include "headwise/plan/make_plan.h"
#include "headwise/plan/plan.h"
#include "headwise/prune/prune.h"
#include "headwise/prune/prune_report.h"

namespace headwise {

/// The input of a study. Without texts and data, a built-in text is used.
struct StudyInput {
  std::vector<std::string> texts{};  // see text_data(); they are cut where they are too long
  ObserveData data{};                // instead of texts

  /// The evaluation of the data is split: one half chooses heads, the other shows what that costs.
  /// With `held_out`, all of it chooses heads. These are examples of the same task that show what
  /// the plan costs, and where they are from.
  std::optional<EvaluationSet> held_out{};
  std::string held_out_source{};
  /// Further examples for heads that the texts leave undecided, used with a budget above the
  /// default. None: only the texts are used.
  std::optional<EvaluationSet> more{};
  double load_seconds = 0;  // that reading the model took, for the stages
};

/// Progress of a study.
struct StudyProgress {
  std::string_view stage{};
  int64_t done = 0, total = 0;            // of the stage's work, in any unit
  double stage_seconds = 0, seconds = 0;  // left for the stage and for all
};

inline constexpr double kUsualKeep = 0.75;

struct StudyOptions {
  // The budget; none: usual_passes. At most one is given.
  std::optional<double> passes{};
  std::optional<double> seconds{};  // converted to passes by timing one

  /// Every head gets all examples, every group all draws, every curve all points, and
  /// ablation_mean is measured too. No budget.
  bool thorough = false;
  bool resume = false;  // go on where a study of the same model, data and options was stopped

  /// The share of heads that stays; none: kUsualKeep. A model is written if this is given, or if
  /// the data support the plan.
  std::optional<double> keep{};
  std::optional<HeadOrder> order{};  // none: default_order
  PruneForm form = PruneForm::compact;
  bool probes = true;
  uint64_t seed = 0;
  std::string command{};  // for summary.json

  /// Called once, before the work starts, with what it will cost.
  std::function<void(double passes, double seconds)> started{};
  /// May throw to stop; what is done by then can be resumed.
  std::function<void(const StudyProgress&)> progress{};
};

struct StudyStage {
  std::string name{};
  double seconds = 0, passes = 0;
  bool operator==(const StudyStage&) const = default;
};

/// Heads whose standing the budget left open, and what deciding all of them would cost.
struct Undecided {
  int64_t heads = 0;
  double passes = 0;             // for all of them; heads near the tolerance need most
  double passes_half = 0;        // for the half that is decided soonest
  int64_t examples_half = 0;     // for that half, more examples to choose on
  bool out_of_examples = false;  // all of them got every example that there is
};

/// What a plan saves, and what removing heads can save at most.
struct Savings {
  BeforeAfter heads{}, parameters{};
  BeforeAfter multiply_adds{};             // of the layers, over a text of 128 tokens
  std::optional<BeforeAfter> bytes{};      // of weights; none: no model was written
  std::optional<SpeedComparison> speed{};  // likewise

  // Without any head, as shares of the model.
  double most_parameters = 0, most_multiply_adds = 0;
  double most_multiply_adds_long = 0;  // of long_tokens tokens; 0: the model takes no longer texts
  int64_t long_tokens = 0;
};

/// A study in sentences for the screen, summary.json and the page. Empty: nothing to say.
struct StudyWords {
  std::string support{};     // what the data do not support, and why
  std::string help{};        // what would help
  std::string importance{};  // heads of each standing
  std::string cost{};        // the change of the loss on held-out examples, beside random heads
  std::string meaning{};     // of that change: neighbours, perplexity, agreement, scores
  std::string comparison{};  // whether the plan costs less than heads at random
  std::string savings{};     // of the plan
  std::string limit{};       // of all plans
  std::string pays{};        // when removing heads pays
};

struct Study {
  Evidence evidence{};
  Verdict verdict{};
  Plan plan{};
  std::optional<PruneReport> prune{};   // none: no model was written
  std::optional<PrunedModel> pruned{};  // likewise
  std::string samples{};                // what heads attend to in a few texts, as JSON
  std::vector<StudyStage> stages{};
  double budget = 0;        // passes; 0: none
  double pass_seconds = 0;  // of one pass
  Undecided undecided{};
  Savings savings{};
  bool keep_given = false;  // see StudyOptions::keep

  double seconds() const;  // of all stages
  double passes() const;
};

/// The passes that a study spends unless asked otherwise: 100, or more for over 180 heads.
double usual_passes(const Model& model);

/// Throws Error if a study with these options cannot be made, before anything is measured.
void check_study(const Model& model, const StudyOptions& options, const std::filesystem::path& out);

/// Examples for a study of the built-in text, from blocks of a longer one: those that are held out,
/// or all others. None: see evaluation_of().
std::optional<EvaluationSet> built_in_examples(const Model& model, bool held_out,
                                               const TextOptions& options = {});
inline constexpr const char* kBuiltInHeldOut = "blocks of 8 sentences of the longer built-in text";

/// Studies a model and leaves the files of the study in the folder `out`, which may not be there,
/// or be empty unless `resume`. Without `out` nothing is written, and the pruned model lies in a
/// temporary folder. Throws Error as its parts do.
Study study(const Model& model, StudyInput input = {}, const StudyOptions& options = {},
            const std::filesystem::path& out = {});

StudyWords in_words(const Study& study);

/// The text of summary.json.
std::string to_json(const Study& study, const StudyOptions& options);

/// The study as one HTML document, report.html: see docs/report.md.
std::string report(const Study& study, const StudyOptions& options = {});

}  // namespace headwise
