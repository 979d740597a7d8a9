// What a report shows of a training or a sweep.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace headwise {

/// Of a training: its summary, and its log thinned to what a plot can show. Of a sweep: its table,
/// and the evaluations of every trial. Empty for other folders.
nlohmann::json training_data(const std::filesystem::path& folder);

}  // namespace headwise
