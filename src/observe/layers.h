// The story of the layers: what their heads have in common.
#pragma once

#include <vector>

#include "headwise/observe/evidence.h"

namespace headwise {

/// Per layer the mean over its heads of every plain number, and the highest of every accuracy.
std::vector<LayerEvidence> sum_up_layers(const Evidence& evidence);

}  // namespace headwise
