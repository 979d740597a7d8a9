// The files that one stage writes and the next one reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace headwise {

enum class Stage { evidence, verdict, plan };

/// Calls `parse` with the text of a stage's file, and its name for messages. The folder of a study
/// stands for the file in it. Where `parse` throws Error because the file is another stage's, the
/// Error says so.
void read_stage_file(
    Stage stage, const std::filesystem::path& file,
    const std::function<void(std::string_view text, const std::string& where)>& parse);

}  // namespace headwise
