// The model card of a pruned model: README.md, as the Hugging Face hub shows it.
#pragma once

#include <filesystem>

#include "headwise/prune/prune_report.h"

namespace headwise {

/// Writes README.md of a pruned folder, whole: what was removed and why, what it cost, and how to
/// load the folder. Licence, language, data, library and task are kept from the card that is there,
/// else from ORIGINAL.md, the card of the original model. prune() calls this; a caller that
/// measures more calls it again with the longer report.
void write_model_card(const std::filesystem::path& folder, const PruneReport& report);

}  // namespace headwise
