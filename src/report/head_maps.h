// What all heads attend to in one text, a byte per weight.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "headwise/model/model.h"

namespace headwise {

/// {"rows": n, "columns": m, "data": base64 of n * m bytes, weight = byte / 255}
nlohmann::ordered_json map_json(std::span<const float> weights, int64_t rows, int64_t columns);

/// Observes a pass over one text.
class HeadMaps : public ForwardObserver {
 public:
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override;

  /// By the names of the heads.
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
};

}  // namespace headwise
