// Runs a model over data and measures every head.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"
#include "headwise/observe/importance.h"
#include "headwise/observe/mean_ablation.h"
#include "headwise/observe/measure_groups.h"
#include "headwise/text/probes.h"
#include "headwise/text/tokenizer.h"
#include "headwise/text/treebank.h"

namespace headwise {

/// The data for measuring heads. Everything may be empty.
struct ObserveData {
  ObservedCorpus corpus{};
  std::vector<TreeSentence> treebank{};
  std::vector<CoreferenceItem> coreference{};

  std::optional<EvaluationSet> evaluation{};  // for importance

  /// The files that the data are from: "treebank", "coreference", "alignment", "data", … . The
  /// evidence names them; what is from no file, it knows by its content.
  std::map<std::string, Evidence::CorpusIdentity> files{};
  /// How the data were made ("sample", "truncate"), by name. The evidence says so.
  std::map<std::string, std::string> options{};
};

/// The name and the hash of files that data are from. `check` is called now and then, and may throw
/// to stop.
Evidence::CorpusIdentity identity_of_files(const Files& files, int64_t texts,
                                           const std::function<void()>& check = {});

struct ObserveOptions {
  MeasureSelection measures{};            // those that are asked for
  bool probes = true;                     // built-in sentences and repeated sequences
  bool all_pairs = false;                 // js between layers, too
  std::vector<HeadIndex> only{};          // the heads to write down; empty: all
  std::vector<float> gates{};             // [heads]; empty: all 1
  std::vector<HeadOutput> replaced{};     // outputs of heads of that model that are mean-ablated
  std::optional<ProbeLexicon> lexicon{};  // of the probes; none: English
  uint64_t seed = 0;
  /// Its heads, gates, seed and progress are those of the observation.
  ImportanceOptions importance{};

  /// This file gets the evidence, whole. Until it is done, what is known by then stands in
  /// FILE.part beside it. `resume`: go on after the last part that is finished there. Throws Error
  /// if that is of another model, of other data or other options.
  std::filesystem::path out{};
  bool resume = false;

  /// Progress within the current part. May throw to stop.
  std::function<void(const std::string& part, int64_t done, int64_t total)> progress{};
  /// Called after every part with the evidence so far.
  std::function<void(const Evidence& so_far)> saved{};
};

/// Evidence with the heads of a model and no measures.
Evidence no_evidence(const Model& model);

/// The same, with the names and hashes of the model and the data, and the options. All weights are
/// read to hash them, unless that was done before.
Evidence identify(const Model& model, const ObserveData& data, const ObserveOptions& options = {});

/// Measures all parts that the data allow. Measures of words need a tokenizer. Throws Error for
/// mean-ablated heads where importance is asked for: ablations begin with a model whose heads only
/// have gates.
Evidence observe(const Model& model, const ObserveData& data, const ObserveOptions& options = {});

/// The parts that `so_far`, which identify began, has not finished. `out` is not read or written.
Evidence observe(const Model& model, const ObserveData& data, const ObserveOptions& options,
                 Evidence so_far);

/// Adds the groups and layers of options.importance to evidence of the same model and loss, and
/// measures nothing else again. Throws Error for other evidence; `where` names it in messages.
void append_groups(const Model& model, const ObserveData& data, const ObserveOptions& options,
                   Evidence& evidence, const std::string& where);

/// A text for the corpus. Throws Error if it is empty or longer than the model's positions; `where`
/// names it.
ObservedText observed_text(const Model& model, const Tokenizer& tokenizer, const std::string& text,
                           const std::string& where, const EncodeOptions& options = {});

}  // namespace headwise
