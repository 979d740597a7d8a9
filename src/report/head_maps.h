// What all heads attend to in one text, a byte per weight.
#pragma once

#include <nlohmann/json.hpp>

#include "headwise/model/model.h"

namespace headwise {

/// Observes a pass over one text.
class HeadMaps : public ForwardObserver {
 public:
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override;

  /// By the names of the heads: {"rows": n, "columns": m, "data": see encode_weights()}.
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

}  // namespace headwise
