// Sums numbers up over the heads of a layer.
#include "observe/layers.h"

#include <algorithm>
#include <map>
#include <utility>

namespace headwise {

PairMatrix part_of(const PairMatrix& all, const std::function<bool(const std::string&)>& wanted) {
  std::vector<int64_t> kept;
  std::vector<std::string> names;
  for (int64_t i = 0; i < std::ssize(all.heads); ++i) {
    if (!wanted(all.heads[i])) continue;
    kept.push_back(i);
    names.push_back(all.heads[i]);
  }
  PairMatrix part = pair_matrix(std::move(names));
  for (size_t a = 0; a < kept.size(); ++a) {
    for (size_t b = 0; b < kept.size(); ++b) part.at(a, b) = all.at(kept[a], kept[b]);
  }
  return part;
}

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
