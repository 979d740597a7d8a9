// The story of the layers: what their heads have in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "headwise/observe/evidence.h"

namespace headwise {

/// The rows and columns of the heads that are wanted.
PairMatrix part_of(const PairMatrix& all, const std::function<bool(const std::string&)>& wanted);

/// Per layer the mean over its heads of every plain number, and the highest of every accuracy.
std::vector<LayerEvidence> sum_up_layers(const Evidence& evidence);

}  // namespace headwise
