// Takes the maps of every attention that it passes.
#include "report/head_maps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "text/base64.h"

namespace headwise {

void HeadMaps::attended(const AttentionSite& site, const Attention& attention,
                        const MultiHeadAttention& layer, View<float, 3>, View<const float, 2>) {
  std::vector<int64_t> rows(attention.q.extent(0));
  std::iota(rows.begin(), rows.end(), 0);
  const AttentionMaps maps = layer.maps(attention, rows);
  const int64_t columns = attention.k.extent(0);
  for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
    std::string bytes;
    for (const int64_t row : rows) {
      for (const float weight : maps.row(row, h)) {
        bytes.push_back(static_cast<char>(std::lround(255 * std::clamp(weight, 0.f, 1.f))));
      }
    }
    json[site.head_name(h)] = {
        {"rows", rows.size()}, {"columns", columns}, {"data", text::encode_base64(bytes)}};
  }
}

}  // namespace headwise
