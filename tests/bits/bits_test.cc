// Every bit is the recorded one, on every SIMD target, with 1 thread and with 2.
//
// HEADWISE_WRITE_BITS=1 build/release/bin/test_bits records them anew.
#include "bits/bits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <tuple>

#include "headwise/core/parallel.h"
#include "headwise/kernels/simd.h"

namespace headwise {
namespace {

/// Files with the numbers of a checkpoint are the same for all SIMD targets.
const std::string kAllTargets = "all";

struct Kind {
  const char* name;
  std::vector<BitCase> (*cases)();
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class BitsTest : public testing::TestWithParam<std::tuple<std::string, Kind>> {
 protected:
  ~BitsTest() override {
    set_simd_target("");
    set_threads(threads_);
  }

 private:
  int threads_ = threads();
};

/// The names that are in one of the two only, or have another hash.
std::set<std::string> different(const Bits& a, const Bits& b) {
  std::set<std::string> names;
  for (const auto& [these, those] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    for (const auto& [name, hash] : *these) {
      const auto found = those->find(name);
      if (found == those->end() || found->second != hash) names.insert(name);
    }
  }
  return names;
}

TEST_P(BitsTest, AreTheRecordedOnes) {
  const auto& [target, kind] = GetParam();
  if (target != kAllTargets) set_simd_target(target);
  Bits found;
  for (const BitCase& one : kind.cases()) {
    set_threads(1);
    found[one.name] = one.hash();
    set_threads(2);
    EXPECT_EQ(one.hash(), found[one.name]) << one.name << ": 1 and 2 threads differ";
  }
  ASSERT_FALSE(found.empty());
  RecordedBits recorded(target);
  if (std::getenv("HEADWISE_WRITE_BITS") != nullptr) {
    recorded.replace(kind.name, found);
    return;
  }
  const std::set<std::string> changed = different(recorded.of_kind(kind.name), found);
  if (changed.empty()) return;
  const std::string message =
      fmt::format("{} of {} hashes in tests/bits/{}.txt differ: {}", changed.size(), found.size(),
                  target, fmt::join(changed, " "));
  if (recorded.toolchain().empty()) {
    GTEST_SKIP() << "no bits are recorded for " << target;
  } else if (recorded.toolchain() != toolchain()) {
    GTEST_SKIP() << "recorded with " << recorded.toolchain() << ", this is " << toolchain() << ": "
                 << message;
  }
  ADD_FAILURE() << message << "\nIf they should: HEADWISE_WRITE_BITS=1 build/release/bin/test_bits";
}

std::string name_of(const testing::TestParamInfo<BitsTest::ParamType>& info) {
  const auto& [target, kind] = info.param;
  return target + "_" + kind.name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, BitsTest,
                         testing::Combine(testing::ValuesIn(simd_targets()),
                                          testing::Values(Kind{"forward", forward_cases},
                                                          Kind{"training", training_cases},
                                                          Kind{"fitted", fitted_cases})),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Files, BitsTest,
                         testing::Values(std::tuple(kAllTargets, Kind{"files", file_cases})),
                         name_of);

}  // namespace
}  // namespace headwise
