// Accuracy, F1 and Matthews' coefficient from counts of labels.
#include "observe/label_scores.h"

#include <cmath>
#include <vector>

namespace headwise {

std::map<std::string, double> label_scores(std::span<const int32_t> said,
                                           std::span<const int32_t> right, int64_t labels) {
  std::vector<double> said_so(labels), is_so(labels), both(labels);
  for (size_t x = 0; x < said.size(); ++x) {
    ++said_so[said[x]];
    ++is_so[right[x]];
    if (said[x] == right[x]) ++both[said[x]];
  }
  const auto n = static_cast<double>(said.size());
  double correct = 0, products = 0, said_squares = 0, is_squares = 0, f1_sum = 0, occurring = 0;
  const auto f1 = [&](int64_t label) {
    const double sum = said_so[label] + is_so[label];
    return sum > 0 ? 2 * both[label] / sum : 0;
  };
  for (int64_t label = 0; label < labels; ++label) {
    correct += both[label];
    products += said_so[label] * is_so[label];
    said_squares += said_so[label] * said_so[label];
    is_squares += is_so[label] * is_so[label];
    if (said_so[label] + is_so[label] == 0) continue;
    f1_sum += f1(label);
    ++occurring;
  }
  const double spread = std::sqrt((n * n - said_squares) * (n * n - is_squares));
  return {{"accuracy", correct / n},
          {"f1", labels == 2 ? f1(1) : f1_sum / occurring},
          {"matthews", spread > 0 ? (correct * n - products) / spread : 0}};
}

}  // namespace headwise
