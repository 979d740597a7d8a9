// How much memory attention takes beyond what it reads and writes, measured in a process of its
// own.
#pragma once

#include <cstdint>

namespace headwise::bench {

struct AttentionMemory {
  double resident_mib;  // the most that was resident at any time
  double working_mib;   // that without the process as it started, inputs, outputs and gradients
};

/// Of one sequence of N rows, forward with every statistic, and backward: H = 8, D = 64.
AttentionMemory measure_attention_memory(int64_t N, int threads);

/// The child's part: if argv says that this process is that child, does the work and returns true.
bool ran_as_memory_child(int argc, char** argv);

}  // namespace headwise::bench
