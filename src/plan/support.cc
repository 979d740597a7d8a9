// The rules that plans need.
#include "headwise/plan/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "observe/loss_table.h"

namespace headwise {
namespace {

constexpr int64_t kFewestToCorrelate = 4;
constexpr double kNormal = 1.959963984540054;  // holds 95 % on both sides

int64_t undecided_in(const Verdict& verdict) {
  return std::ranges::count_if(verdict.heads, [](const HeadVerdict& head) {
    // Without an interval an ablation gives no standing.
    return head.importance.ablation_zero &&
           head.standing.value_or(Standing::undecided) == Standing::undecided;
  });
}

}  // namespace

std::optional<RankCorrelation> rank_correlation(std::span<const double> a,
                                                std::span<const double> b) {
  if (std::ssize(a) < kFewestToCorrelate) return std::nullopt;
  const double rho = spearman(a, b, std::vector<uint32_t>(a.size(), 1));
  if (std::isnan(rho)) return std::nullopt;
  const double bounded = std::clamp(rho, -1 + 1e-12, 1 - 1e-12);
  const double z = std::atanh(bounded);
  const double error = std::sqrt((1 + bounded * bounded / 2) / (static_cast<double>(a.size()) - 3));
  return RankCorrelation{
      .value = rho,
      .interval = {std::tanh(z - kNormal * error), std::tanh(z + kNormal * error)},
      .p = std::erfc(std::abs(z) / error / std::sqrt(2.))};
}

std::optional<RankCorrelation> gradient_ablation_correlation(const Verdict& verdict) {
  std::vector<double> gradients, ablations;
  for (const HeadVerdict& head : verdict.heads) {
    if (!head.importance.gradient || !head.importance.ablation_zero) continue;
    gradients.push_back(*head.importance.gradient);
    ablations.push_back(head.importance.ablation_zero->value);
  }
  return rank_correlation(gradients, ablations);
}

std::vector<std::string> reasons_against(const Verdict& verdict, const HeldOut* held_out) {
  std::vector<std::string> reasons;
  const auto measured = std::ranges::count_if(verdict.heads, [](const HeadVerdict& head) {
    return head.importance.ablation_zero.has_value();
  });
  if (measured == 0) {
    reasons.emplace_back("no ablation was measured");
  } else {
    const int64_t undecided = undecided_in(verdict), all = std::ssize(verdict.heads);
    if (2 * undecided > all) {
      reasons.push_back(fmt::format("{} of {} heads are undecided", undecided, all));
    }
    const auto gradients = std::ranges::count_if(verdict.heads, [](const HeadVerdict& head) {
      return head.importance.gradient.has_value();
    });
    const std::optional<RankCorrelation> ranks = gradient_ablation_correlation(verdict);
    if (ranks && ranks->interval.low <= 0) {
      reasons.push_back(fmt::format(
          "gradients and ablations do not rank the heads alike (rank correlation {:.2f}, 95 % "
          "interval {:.2f} to {:.2f})",
          ranks->value, ranks->interval.low, ranks->interval.high));
    } else if (!ranks && gradients > 0) {
      reasons.emplace_back(
          "gradients and ablations of so few heads, or of equal value, cannot be compared");
    }
  }
  if (held_out == nullptr) return reasons;
  if (held_out->examples == 0) {
    reasons.push_back(fmt::format("nothing was held out: {}", held_out->reason));
  } else if (held_out->random.draws > 0 && held_out->change >= held_out->random.median) {
    reasons.push_back(fmt::format(
        "on {} held-out examples removing these heads changes the loss by {:+.4g}, no "
        "less than removing as many at random ({:+.4g}, median of {} draws)",
        held_out->examples, held_out->change, held_out->random.median, held_out->random.draws));
  }
  return reasons;
}

void assess(const Verdict& verdict, Plan& plan) {
  plan.reasons.clear();
  if (plan.order != "list") {
    plan.reasons = reasons_against(verdict, plan.held_out ? &*plan.held_out : nullptr);
  }
  plan.supported = plan.reasons.empty();
}

}  // namespace headwise
