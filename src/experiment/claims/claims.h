// One function per claim, each in a file of its name.
#pragma once

#include "experiment/experiment_kind.h"

namespace headwise {

ExperimentKind convolution_as_heads();
ExperimentKind free_heads();
ExperimentKind graceful_failure();
ExperimentKind gradients_are_enough();
ExperimentKind harmful_heads();
ExperimentKind head_dropout();
ExperimentKind head_specialisation();
ExperimentKind layers_by_depth();
ExperimentKind lower_layers();
ExperimentKind programs_as_heads();
ExperimentKind redundant_partner();
ExperimentKind role_groups();
ExperimentKind separate_softmax();
ExperimentKind several_heads();
ExperimentKind single_heads();
ExperimentKind train_many_prune_few();

}  // namespace headwise
