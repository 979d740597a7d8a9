// The work of headwise observe, for all commands that observe.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "headwise/observe/observe.h"
#include "inputs.h"

namespace headwise::program {

/// What observe is asked for.
struct ObserveArgs {
  InputOptions input{};
  std::string treebank{}, coreference{}, alignment{};
  std::vector<std::string> measure{};
  std::string only{}, pairs = "layer";
  int64_t sample = 0;
  std::string lexicon{};
  std::string loss{}, verdict{}, csv{};
  std::vector<std::string> data{}, ablate{}, groups{};
  std::optional<double> adaptive{}, positions{};
  bool no_probes = false, resume = false, append = false;
  bool cuts_texts = false;  // but not those of --data: they are the program's own

  bool ablates(const char* what) const { return std::ranges::find(ablate, what) != ablate.end(); }

  MeasureSelection measures() const { return MeasureSelection(measure); }
};

/// Throws Error if there is nothing to observe.
void check_texts(const ObserveArgs& args, const ObserveData& data);

/// Texts, treebank, pronouns, and what the loss is taken over.
ObserveData read_observe_data(const ObserveArgs& args, const Session& session,
                              const CommonOptions& common);

/// Measures what the data allow, with a progress line. --out gets the evidence; until it is done,
/// what is known by then stands in a file beside it.
Evidence observe_and_write(const ObserveArgs& args, const Session& session, const ObserveData& data,
                           const CommonOptions& common);

/// Adds groups of heads to the evidence of --out.
Evidence append_and_write(const ObserveArgs& args, const Session& session, const ObserveData& data,
                          const CommonOptions& common);

}  // namespace headwise::program
