// Memory and time of whole processes: a pass with statistics, and the program itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace headwise::bench {

/// MiB by which a process grows at most while a loaded model runs these texts with all statistics.
double measure_model_memory(const std::filesystem::path& folder,
                            const std::vector<int64_t>& lengths);

/// True if this process was started for such a measurement, which is then done.
bool ran_as_memory_child(int argc, char** argv);

struct ProgramRun {
  double seconds = 0, resident_mib = 0;
};

/// The median of several runs of a program, from its start to its end, and its largest memory.
ProgramRun measure_program(const std::vector<std::string>& command);

}  // namespace headwise::bench
