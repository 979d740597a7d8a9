// Declares the parameters and tensors of a model.
#include "train/parameter_list.h"

#include <utility>

namespace headwise {

SharedParameterState ParameterList::parameter(const std::string& name, std::span<float> values,
                                              std::span<float> gradient, bool decays) {
  if (values.empty()) return nullptr;
  parameters.push_back({.name = name, .values = values, .gradient = gradient, .decays = decays});
  return states.emplace_back(
      std::make_shared<ParameterState>(ParameterState{.requires_grad = true}));
}

Dtype ParameterList::tensor(const std::string& name, std::vector<int64_t> shape,
                            std::vector<TensorPart> parts) {
  tensors.push_back({.name = name, .shape = std::move(shape), .parts = std::move(parts)});
  return Dtype::kF32;
}

Table ParameterList::table(const LayerName& name, int64_t rows, int64_t width) {
  return {.tensor = name.tensor,
          .weights = std::make_shared<const Weights>(matrix(name, rows, width, {}))};
}

PackedWeights ParameterList::packed(const std::string&, int64_t, int64_t, bool) {
  return {};  // never asked for: packs() is false
}

}  // namespace headwise
