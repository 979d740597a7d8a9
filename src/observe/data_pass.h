// Runs a model over a corpus and calls the metrics of a data pass.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "observe/head_metric.h"

namespace headwise {

/// The longest text without dynamic NTK scaling. Longer texts run alone, because the scaling
/// depends on their length.
int64_t dynamic_ntk_length(const ModelConfig& config);

/// Texts, one after the other, in batches of about 2,048 rows; those longer than `longest` alone.
std::vector<std::vector<int64_t>> text_batches(const ObservedCorpus& corpus, int64_t longest);

/// Called with the texts done so far, and all; may throw to stop.
using PassProgress = std::function<void(int64_t done, int64_t total)>;

/// All metrics of these passes that have something to say about the model and the corpus, together
/// and as often over the texts as they ask for. Their numbers go to `heads`, one per head of the
/// model.
void run_data_pass(const MetricContext& context, const std::vector<DataPass>& passes,
                   const PassProgress& progress, std::span<Measures> heads, Evidence& evidence);

}  // namespace headwise
