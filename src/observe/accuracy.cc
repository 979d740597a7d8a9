// Accuracies, their intervals, and the head that has the best one.
#include "observe/accuracy.h"

#include <algorithm>
#include <cmath>

namespace headwise {
namespace {

constexpr double kZ = 1.959963984540054;  // 97.5 % of the normal distribution

}  // namespace

ConfidenceInterval wilson_interval(double share, int64_t n, double z) {
  const double count = static_cast<double>(n);
  const double z2 = z * z / count;
  const double middle = (share + z2 / 2) / (1 + z2);
  const double reach = z / (1 + z2) * std::sqrt(share * (1 - share) / count + z2 / count / 4);
  return {std::max(0., middle - reach), std::min(1., middle + reach)};
}

Measure accuracy(int64_t right, int64_t n, std::optional<double> baseline) {
  const double share = static_cast<double>(right) / static_cast<double>(n);
  return {.value = share, .n = n, .interval = wilson_interval(share, n, kZ), .baseline = baseline};
}

std::vector<uint8_t> heads_within_text(const MetricContext& context) {
  std::vector<uint8_t> heads(context.model.heads());
  for (const AttentionSite& site : context.model.attentions()) {
    if (site.kind == AttentionKind::cross) continue;
    if (site.side == Side::decoder && context.model.config().encoder_decoder()) continue;
    for (int64_t h = site.first; h < site.first + std::ssize(site.heads); ++h) {
      heads[h] = context.wanted.empty() || context.wanted[h] != 0;
    }
  }
  return heads;
}

bool has_any(const AttentionSite& site, std::span<const uint8_t> heads) {
  return std::ranges::any_of(heads.subspan(site.first, site.heads.size()),
                             [](uint8_t head) { return head != 0; });
}

void Answers::raise_baseline(const Halves& right) {
  const auto raise = [](double& best, int64_t part, int64_t of) {
    if (of > 0) best = std::max(best, static_cast<double>(part) / static_cast<double>(of));
  };
  raise(baseline, right[0] + right[1], all());
  for (const int half : {0, 1}) raise(of_halves[half], right[half], items[half]);
}

Measure Answers::measured(int64_t right_ones, std::span<const int> halves,
                          double its_baseline) const {
  int64_t n = 0, sum = 0;
  double squares = 0;
  for (const int half : halves) {
    n += items[half];
    if (weighting) sum += weighting->sum[half];
    if (weighting) squares += weighting->squares[half];
  }
  if (!weighting) return accuracy(right_ones, n, its_baseline);
  const auto all_weights = static_cast<double>(sum);
  const double share =
      sum == 0 ? 0 : weighting->covered * static_cast<double>(right_ones) / all_weights;
  const int64_t effective =
      sum == 0 ? 1 : std::max<int64_t>(1, std::llround(all_weights * all_weights / squares));
  return {.value = share,
          .n = effective,
          .interval = wilson_interval(share, effective, kZ),
          .baseline = its_baseline};
}

void Answers::add_to(std::span<const uint8_t> heads, std::span<Measures> measures) const {
  if (all() == 0) return;
  for (size_t h = 0; h < heads.size(); ++h) {
    if (heads[h] == 0) continue;
    measures[h].add(name, measured(right[h][0] + right[h][1], std::array{0, 1}, baseline));
  }
}

std::optional<BestHead> Answers::best(std::span<const uint8_t> heads, const Model& model) const {
  if (items[0] == 0 || items[1] == 0) return {};
  BestHead best;
  int64_t most = -1;
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t i = 0; i < std::ssize(site.heads); ++i) {
      const int64_t h = site.first + i;
      if (heads[h] == 0 || right[h][0] <= most) continue;
      most = right[h][0];
      best = {.head = site.head_name(i),
              .chosen = measured(right[h][0], std::array{0}, of_halves[0]),
              .measured = measured(right[h][1], std::array{1}, of_halves[1])};
    }
  }
  if (most < 0) return {};
  return best;
}

void report(const Answers& answers, const MetricContext& context, std::span<const uint8_t> heads,
            std::span<Measures> measures, Evidence& evidence) {
  answers.add_to(heads, measures);
  if (auto best = answers.best(heads, context.model)) {
    (context.probes ? evidence.best_probes : evidence.best)[answers.name] = *std::move(best);
  }
}

}  // namespace headwise
