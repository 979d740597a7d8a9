// Runs a model over a corpus while watchers look on.
#pragma once

#include <functional>
#include <span>

#include "observe/watcher.h"

namespace headwise {

/// Called with the texts done so far, and all; may throw to stop.
using WatchProgress = std::function<void(int64_t done, int64_t total)>;

/// All watchers of a pass that have something to say about the model and the corpus, as often over
/// the texts as they ask for. Their numbers go to `heads`, one per head of the model.
void watch_corpus(const WatchContext& context, WatchPass pass, const WatchProgress& progress,
                  std::span<Measures> heads, Evidence& evidence);

}  // namespace headwise
