// Two heads of one model side by side: how alike they are, what was measured of each, their roles.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/model/model.h"
#include "headwise/observe/compare_heads.h"
#include "headwise/observe/evidence.h"
#include "headwise/observe/observe.h"

namespace headwise {

struct HeadPair {
  HeadComparison comparison{};
  Evidence evidence{};
  Verdict verdict{};
};

struct HeadPairOptions {
  std::vector<float> gates{};        // [heads] of the model; empty: all 1
  std::optional<Verdict> verdict{};  // that has the roles; none: they are judged by the data and
                                     // the built-in probes
  uint64_t seed = 0;
  /// Progress within the current part. May throw to stop.
  std::function<void(const std::string& part, int64_t done, int64_t total)> progress{};
};

/// Heads are named "L7.H9". Throws Error for a layer or a list, and as compare_heads() does.
HeadPair compare_pair(const Model& model, std::string_view a, std::string_view b,
                      const ObserveData& data, const HeadPairOptions& options = {});

/// "positional (previous)", "relation (det) on probes": the roles that a verdict gives a head.
std::vector<std::string> named_roles(const Verdict& verdict, std::string_view head);

}  // namespace headwise
