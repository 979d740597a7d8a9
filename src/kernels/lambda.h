// How lambdas on SIMD vectors are declared.
#pragma once

/// Lambdas do not take on the target of what surrounds them, and must not keep vectors in memory.
/// Sanitizers take minutes over functions as large as inlining makes them, so there they are not.
#ifdef HEADWISE_SANITIZED
#define HEADWISE_LAMBDA HWY_ATTR __attribute__((noinline))
#else
#define HEADWISE_LAMBDA HWY_ATTR __attribute__((always_inline))
#endif
