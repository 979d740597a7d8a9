// Draws hard concrete gates, and their gradients.
#include "train/hard_concrete.h"

#include <algorithm>
#include <cmath>

#include "headwise/core/random.h"

namespace headwise {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double stretched(double s) {
  return s * (HardConcrete::kZeta - HardConcrete::kGamma) + HardConcrete::kGamma;
}

/// The probability that a gate is not 0 is sigmoid(log_alpha + this).
double shift() {
  return -HardConcrete::kBeta * std::log(-HardConcrete::kGamma / HardConcrete::kZeta);
}

}  // namespace

HardConcrete::HardConcrete(int64_t gates)
    : log_alpha_(1, gates), drawn_(gates), dgates_(gates), slopes_(gates) {
  std::ranges::fill(log_alpha_.values(), kStart);
}

View<const float, 2> HardConcrete::draw(uint64_t seed) {
  constexpr uint64_t kStream = 0x6a7e;
  Random random(seed, kStream);
  std::ranges::fill(dgates_, 0.f);
  for (int64_t i = 0; i < size(); ++i) {
    const double u = double{random.uniform()} + 0x1p-25;  // neither 0 nor 1
    const double s = sigmoid((std::log(u) - std::log1p(-u) + log_alpha_.values()[i]) / kBeta);
    const double gate = stretched(s);
    drawn_[i] = static_cast<float>(std::clamp(gate, 0., 1.));
    slopes_[i] = gate > 0 && gate < 1 ? (kZeta - kGamma) * s * (1 - s) / kBeta : 0;
  }
  return {drawn_.data(), {1, size()}};
}

void HardConcrete::backward(double penalty_scale) {
  for (int64_t i = 0; i < size(); ++i) {
    const double open = sigmoid(log_alpha_.values()[i] + shift());
    log_alpha_.gradient()[i] +=
        static_cast<float>(double{dgates_[i]} * slopes_[i] + penalty_scale * open * (1 - open));
  }
}

double HardConcrete::penalty() const {
  double sum = 0;
  for (const float log_alpha : log_alpha_.values()) sum += sigmoid(log_alpha + shift());
  return sum;
}

std::vector<float> HardConcrete::gates() const {
  std::vector<float> gates;
  for (const float log_alpha : log_alpha_.values()) {
    gates.push_back(static_cast<float>(std::clamp(stretched(sigmoid(log_alpha)), 0., 1.)));
  }
  return gates;
}

Parameter HardConcrete::parameter() const {
  return {.name = "gates.log_alpha",
          .values = log_alpha_.values(),
          .gradient = log_alpha_.gradient(),
          .decays = false};
}

}  // namespace headwise
