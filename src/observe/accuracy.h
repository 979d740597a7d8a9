// How often heads are right about items whose answer is known.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "observe/head_metric.h"

namespace headwise {

/// Wilson's interval of a share of n > 0 that reaches z standard deviations far. It also holds
/// means of numbers in [0, 1], which spread less.
ConfidenceInterval wilson_interval(double share, int64_t n, double z);

/// A share with its 95 % Wilson interval; n > 0.
Measure accuracy(int64_t right, int64_t n, std::optional<double> baseline = {});

/// The heads [heads of the model] that are asked for and attend from words of the text to words of
/// the text: not those of a decoder that reads another one, nor cross attention.
std::vector<uint8_t> heads_within_text(const MetricContext& context);

/// Whether any head of an attention is among them.
bool has_any(const AttentionSite& site, std::span<const uint8_t> heads);

/// The answers of all heads to items of one kind, which are told apart by half: items 0, 2, 4, …
/// are of half 0, the others of half 1.
struct Answers {
  using Halves = std::array<int64_t, 2>;

  /// Of items that do not all count the same. `right` is then a sum of weights.
  struct Weighting {
    Halves sum{};                     // of the weights of all items
    std::array<double, 2> squares{};  // of the weights, summed up
    double covered = 1;               // the share of what the items stand for that has any
  };

  std::string name{};                 // "relation/det/to_head"
  Halves items{};                     // so far; the next one is of half `all() % 2`
  std::vector<Halves> right{};        // [heads]
  double baseline = 0;                // the best of what needs no head, over all items
  std::array<double, 2> of_halves{};  // the same on each half
  std::optional<Weighting> weighting{};

  int64_t all() const { return items[0] + items[1]; }

  /// After the last item: something that needs no head is right so often.
  void raise_baseline(const Halves& right);

  /// The accuracy of each head in `heads`. With weights, n is the effective number of items (Kish):
  /// that of equal items with the same variance.
  void add_to(std::span<const uint8_t> heads, std::span<Measures> measures) const;

  /// The head that is right most often on half 0 (the first of those), and its accuracy on half 1;
  /// nothing if there are no items in one of them, or no heads.
  std::optional<BestHead> best(std::span<const uint8_t> heads, const Model& model) const;

 private:
  Measure measured(int64_t right, std::span<const int> halves, double baseline) const;
};

/// Adds measures and the best head to where they belong.
void report(const Answers& answers, const MetricContext& context, std::span<const uint8_t> heads,
            std::span<Measures> measures, Evidence& evidence);

}  // namespace headwise
