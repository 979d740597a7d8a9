// The experiments that can be run.
#include <array>

#include "experiment/claims/claims.h"
#include "experiment/experiment_kind.h"

namespace headwise {

std::span<const ExperimentKind> experiment_kinds() {
  static const std::array kAll = {
      single_heads_cost_little(),
      lower_layers_are_replaceable(),
      harmful_heads(),
      gradients_are_enough(),
  };
  return kAll;
}

}  // namespace headwise
