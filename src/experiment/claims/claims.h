// One function per claim.
#pragma once

#include "experiment/experiment_kind.h"

namespace headwise {

ExperimentKind gradients_are_enough();          // predictors.cc
ExperimentKind harmful_heads();                 // harmful_heads.cc
ExperimentKind lower_layers_are_replaceable();  // lower_layers.cc
ExperimentKind single_heads_cost_little();      // single_heads.cc

}  // namespace headwise
