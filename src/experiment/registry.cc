// The experiments that can be run.
#include <array>

#include "experiment/claims/claims.h"
#include "experiment/experiment_kind.h"

namespace headwise {

std::span<const ExperimentKind> experiment_kinds() {
  static const std::array kAll = {
      several_heads(),
      separate_softmax(),
      head_specialisation(),
      train_many_prune_few(),
      head_dropout(),
      layers_differ_by_depth(),
      redundant_heads_are_cheap(),
      single_heads_cost_little(),
      lower_layers_are_replaceable(),
      fifth_of_heads_can_go(),
      harmful_heads(),
      gradients_are_enough(),
      failure_is_graceful(),
  };
  return kAll;
}

}  // namespace headwise
