// The SIMD target can be listed, forced and given back.
#include "headwise/kernels/simd.h"

#include <gtest/gtest.h>

#include "headwise/core/error.h"

namespace headwise {
namespace {

TEST(Simd, EveryListedTargetCanBeForced) {
  const auto targets = simd_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(simd_target(), targets.front());
  for (const auto& target : targets) {
    set_simd_target(target);
    EXPECT_EQ(simd_target(), target);
    EXPECT_EQ(simd_targets(), targets);
  }
  set_simd_target("");
  EXPECT_EQ(simd_target(), targets.front());
}

TEST(Simd, UnknownTargetThrowsAndChangesNothing) {
  const auto before = simd_target();
  EXPECT_THROW(set_simd_target("MMX"), Error);
  EXPECT_EQ(simd_target(), before);
}

}  // namespace
}  // namespace headwise
