// Takes the maps of every attention that it passes.
#include "report/head_maps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/report/report.h"
#include "text/base64.h"

namespace headwise {

std::string encode_weights(std::span<const float> weights) {
  std::string bytes;
  bytes.reserve(weights.size());
  for (const float weight : weights) {
    bytes.push_back(static_cast<char>(std::lround(255 * std::clamp(weight, 0.f, 1.f))));
  }
  return text::encode_base64(bytes);
}

void HeadMaps::on_z(const AttentionSite& site, const Attention& attention,
                    const MultiHeadAttention& layer, View<float, 3>, View<const float, 2>) {
  const int64_t rows = attention.q.extent(0), columns = attention.k.extent(0);
  std::vector<int64_t> all(rows);
  std::iota(all.begin(), all.end(), 0);
  const AttentionMaps maps = layer.maps(attention, all);
  for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
    std::vector<float> weights;
    for (const int64_t row : all) {
      const auto one = maps.row(row, h);
      weights.insert(weights.end(), one.begin(), one.end());
    }
    json[site.head_name(h)] = {
        {"rows", rows}, {"columns", columns}, {"data", encode_weights(weights)}};
  }
}

}  // namespace headwise
