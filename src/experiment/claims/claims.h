// One function per claim, each in a file of its name.
#pragma once

#include "experiment/experiment_kind.h"

namespace headwise {

ExperimentKind harmful_heads();

}  // namespace headwise
