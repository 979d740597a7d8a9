// Target choice on top of Highway's own mechanism for tests, so that every dispatched kernel
// follows.
#include "headwise/kernels/simd.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "headwise/core/error.h"
#include "hwy/highway.h"

namespace headwise {
namespace {

/// What the machine can run, listed before any target was forced: Highway forgets the rest then.
const std::vector<int64_t>& machine_targets() {
  static const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  return targets;
}

int64_t find_target(const std::string& name) {
  for (const int64_t target : machine_targets()) {
    if (name == hwy::TargetName(target)) return target;
  }
  throw Error({.what = "simd: this machine has no such target",
               .got = name,
               .expected = fmt::format("one of {}", fmt::join(simd_targets(), ", "))});
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const int64_t target : machine_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string simd_target() { return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front()); }

void set_simd_target(const std::string& name) {
  const int64_t target = name.empty() ? machine_targets().front() : find_target(name);
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace headwise
