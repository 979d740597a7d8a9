// The experiments that can be run.
#include <array>

#include "experiment/claims/claims.h"
#include "experiment/experiment_kind.h"

namespace headwise {

std::span<const ExperimentKind> experiment_kinds() {
  static const std::array kAll = {
      convolution_as_heads(),
      programs_as_heads(),
      harmful_heads(),
  };
  return kAll;
}

}  // namespace headwise
