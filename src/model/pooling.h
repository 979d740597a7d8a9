// Ways of making one vector of the hidden states of a text, as sentence-transformers names them.
#pragma once

#include <filesystem>
#include <vector>

#include "headwise/core/view.h"

namespace headwise {

enum class Pool { cls, max, mean, mean_sqrt, weighted_mean, last };

/// What config.json of a Pooling module says, in the order in which sentence-transformers puts them
/// side by side. Throws Error if it chooses none.
std::vector<Pool> read_pooling(const std::filesystem::path& folder);

/// out[C], from the rows [N, C] of one text, N at least 1.
void pool(View<const float, 2> rows, Pool mode, float* out);

/// The gradient of it: drows [N, C] is added to.
void pool_backward(View<const float, 2> rows, Pool mode, const float* dout, View<float, 2> drows);

}  // namespace headwise
