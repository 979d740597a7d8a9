// Sets gates by name.
#include "headwise/observe/head_gates.h"

#include <fmt/format.h>

#include <string>

#include "headwise/core/error.h"

namespace headwise {

void HeadGates::set(std::string_view heads, double gate) {
  const std::vector<HeadIndex> found = model_->find_heads(heads);
  if (!(gate >= 0 && gate <= 1)) {
    throw Error({.what = "a gate is not in range",
                 .where = std::string(heads),
                 .got = fmt::format("{}", gate),
                 .expected = "a number from 0 (the head is ablated) to 1 (as it is)"});
  }
  if (values_.empty()) values_.assign(model_->heads(), 1);
  for (const HeadIndex head : found) {
    const int64_t number = model_->attentions()[head.site].first + head.index;
    values_[number] = static_cast<float>(gate);
    std::erase(mean_heads_, number);
  }
}

void HeadGates::set_to_mean(std::string_view heads) {
  set(heads, 1);
  for (const HeadIndex head : model_->find_heads(heads)) {
    mean_heads_.push_back(model_->attentions()[head.site].first + head.index);
  }
}

void HeadGates::measure_means(const ObservedCorpus& corpus,
                              const std::function<void(int64_t, int64_t)>& progress) {
  if (mean_heads_.empty()) return;
  replaced_->outputs = mean_outputs(*model_, corpus, mean_heads_, progress);
  replaced_->observer = ReplacedHeads(replaced_->outputs);
}

ForwardOptions HeadGates::options(ForwardObserver* observer) const {
  ForwardOptions options{.observer = observer};
  if (!replaced_->outputs.empty()) {
    replaced_->observer.show(observer);
    options.observer = &replaced_->observer;
  }
  if (!values_.empty()) options.gates = {values_.data(), {1, std::ssize(values_)}};
  return options;
}

}  // namespace headwise
