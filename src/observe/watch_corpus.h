// Runs a model over a corpus while watchers look on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "observe/watcher.h"

namespace headwise {

/// How long texts may be before they stretch the rotary embedding of a model, and are run alone,
/// whatever they are in a batch with.
int64_t stretches_at(const ModelConfig& config);

/// Texts, one after the other, in batches of about 2,048 rows; those longer than `longest` alone.
std::vector<std::vector<int64_t>> text_batches(const ObservedCorpus& corpus, int64_t longest);

/// Called with the texts done so far, and all; may throw to stop.
using WatchProgress = std::function<void(int64_t done, int64_t total)>;

/// All watchers of these passes that have something to say about the model and the corpus, together
/// and as often over the texts as they ask for. Their numbers go to `heads`, one per head of the
/// model.
void watch_corpus(const WatchContext& context, const std::vector<WatchPass>& passes,
                  const WatchProgress& progress, std::span<Measures> heads, Evidence& evidence);

}  // namespace headwise
