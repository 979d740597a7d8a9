// One function per claim.
#pragma once

#include "experiment/experiment_kind.h"

namespace headwise {

ExperimentKind failure_is_graceful();           // graceful_failure.cc
ExperimentKind fifth_of_heads_can_go();         // pruning_curves.cc
ExperimentKind gradients_are_enough();          // predictors.cc
ExperimentKind harmful_heads();                 // harmful_heads.cc
ExperimentKind head_dropout();                  // head_dropout.cc
ExperimentKind head_specialisation();           // head_specialisation.cc
ExperimentKind layers_differ_by_depth();        // layers_by_depth.cc
ExperimentKind lower_layers_are_replaceable();  // lower_layers.cc
ExperimentKind redundant_heads_are_cheap();     // redundant_partner.cc
ExperimentKind separate_softmax();              // separate_softmax.cc
ExperimentKind several_heads();                 // several_heads.cc
ExperimentKind single_heads_cost_little();      // single_heads.cc
ExperimentKind train_many_prune_few();          // train_many_prune_few.cc

}  // namespace headwise
