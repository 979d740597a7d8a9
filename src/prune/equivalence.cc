// Runs the forms, and compares what they say.
#include "prune/equivalence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/core/error.h"
#include "prune/compensate.h"

namespace headwise {
namespace {

constexpr int64_t kProofRows = 1024;  // of a batch

/// The largest difference of hidden states, and the largest of these.
struct Difference {
  double largest = 0, value = 0;

  void add(View<const float, 2> a, View<const float, 2> b) {
    for (int64_t i = 0; i < a.extent(0) * a.extent(1); ++i) {
      const double x = a.data()[i], y = b.data()[i];
      value = std::isnan(x - y) ? INFINITY : std::max(value, std::abs(x - y));
      largest = std::max(largest, std::abs(x));
    }
  }
  double relative() const {
    const double share = largest > 0 ? value / largest : value;
    return std::isnan(share) ? INFINITY : share;
  }
};

}  // namespace

Activations last_hidden(const Model& model, const TokenBatch& source, const TokenBatch& target,
                        const ForwardOptions& options) {
  return target.sequences() > 0 ? model.forward(source, target, options)
                                : model.forward(source, options);
}

double rounding_of_forms(const Model& model) {
  constexpr double kHalfBit = 0x1p-24, kAmplified = 8;
  const auto attentions = static_cast<double>(model.attentions().size());
  return kAmplified * kHalfBit * std::sqrt(static_cast<double>(model.config().width)) *
         (1 + attentions);
}

EquivalenceCheck compare_models(const Model& written, const Model& reference,
                                std::span<const float> gates, const TokenBatch& source,
                                const TokenBatch& target, const std::function<void()>& check) {
  ForwardOptions options;
  if (!gates.empty()) options.gates = {gates.data(), {1, std::ssize(gates)}};
  Difference difference;
  for_each_batch(source, target, kProofRows,
                 [&](const TokenBatch& sources, const TokenBatch& targets) {
                   if (check) check();
                   difference.add(last_hidden(reference, sources, targets, options).rows,
                                  last_hidden(written, sources, targets).rows);
                 });
  return {.max_difference = difference.relative(),
          .texts = source.sequences(),
          .tokens = source.rows() + target.rows()};
}

void require_same(const EquivalenceCheck& proof, const Model& model,
                  const std::filesystem::path& out) {
  const double most = rounding_of_forms(model);
  if (proof.max_difference <= most) return;
  throw Error({.what = "the pruned model is not what was meant, and was not kept",
               .where = out.string(),
               .got = fmt::format("hidden states that differ by {:.2g} of the largest",
                                  proof.max_difference),
               .expected = fmt::format("at most {:.2g}, as rounding makes", most),
               .hint = "this is a mistake in headwise: please report it"});
}

}  // namespace headwise
