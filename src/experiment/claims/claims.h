// One function per claim.
#pragma once

#include "experiment/experiment_kind.h"

namespace headwise {

ExperimentKind failure_is_graceful();           // graceful_failure.cc
ExperimentKind fifth_of_heads_can_go();         // pruning_curves.cc
ExperimentKind gradients_are_enough();          // predictors.cc
ExperimentKind harmful_heads();                 // harmful_heads.cc
ExperimentKind layers_differ_by_depth();        // layers_by_depth.cc
ExperimentKind lower_layers_are_replaceable();  // lower_layers.cc
ExperimentKind redundant_heads_are_cheap();     // redundant_partner.cc
ExperimentKind single_heads_cost_little();      // single_heads.cc

}  // namespace headwise
