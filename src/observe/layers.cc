// Sums numbers up over the heads of a layer.
#include "observe/layers.h"

#include <algorithm>
#include <map>

namespace headwise {

std::vector<LayerEvidence> sum_up_layers(const Evidence& evidence) {
  std::vector<LayerEvidence> layers;
  std::vector<std::map<std::string, Measure>> sums;
  for (const HeadEvidence& head : evidence.heads) {
    const std::string layer = layer_of(head.head);
    if (layers.empty() || layers.back().layer != layer) {
      layers.push_back({.layer = layer});
      sums.emplace_back();
    }
    for (const auto& [name, measure] : head.measures) {
      const auto [at, is_new] = sums.back().try_emplace(name, measure);
      Measure& sum = at->second;
      if (is_new) {
        if (!measure.baseline) sum = {.value = measure.value, .n = 1};
      } else if (measure.baseline) {
        if (measure.value > sum.value) sum = measure;
      } else {
        sum.value += measure.value;
        ++sum.n;
      }
    }
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    for (auto& [name, sum] : sums[l]) {
      if (!sum.baseline) sum.value /= static_cast<double>(sum.n);
      layers[l].measures.add(name, sum);
    }
  }
  return layers;
}

}  // namespace headwise
