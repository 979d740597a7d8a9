// One function per claim, each in a file of its name.
#pragma once

#include "experiment/experiment_kind.h"

namespace headwise {

ExperimentKind convolution_as_heads();
ExperimentKind harmful_heads();
ExperimentKind programs_as_heads();

}  // namespace headwise
