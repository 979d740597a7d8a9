// How fast this machine multiplies and adds right now: tells a disturbed sample from a quiet one.
#pragma once

#include <string>

namespace headwise::bench {

/// GFLOP/s of fused multiply-adds on `threads` threads at once, the slowest counting for all; takes
/// about two milliseconds.
double fma_gflops(int threads);

/// The SIMD target that Highway picked, "AVX2" for instance.
std::string simd_target();

}  // namespace headwise::bench
