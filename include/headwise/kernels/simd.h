// Which SIMD instruction set the kernels use: the best the machine has, unless a test or a
// benchmark forces another.
#pragma once

#include <string>
#include <vector>

namespace headwise {

/// Names of the compiled targets this machine can run, best first, such as {"AVX2", "SSE4"}.
std::vector<std::string> simd_targets();

/// The one in use.
std::string simd_target();

/// Makes all kernels use one of simd_targets(), or the best for an empty name. Must not be called
/// while kernels run. Throws Error for a name that is not in simd_targets().
void set_simd_target(const std::string& name);

}  // namespace headwise
