// The probe: twelve independent chains of fused multiply-adds, on the SIMD target of the machine.
#include "fma_probe.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_probe.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
// Must come after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headwise::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Runs `rounds` rounds of the chains, which start at unknown numbers so that none can be left out;
/// returns the floating point operations done.
double fma_rounds(int64_t rounds, volatile float* numbers) {
  const hn::ScalableTag<float> d;
  const auto x = hn::Set(d, numbers[0]);
  const auto y = hn::Set(d, numbers[1]);
  auto a0 = hn::Set(d, numbers[2]), a1 = hn::Set(d, numbers[3]), a2 = hn::Set(d, numbers[4]);
  auto a3 = hn::Set(d, numbers[5]), a4 = hn::Set(d, numbers[6]), a5 = hn::Set(d, numbers[7]);
  auto a6 = hn::Set(d, numbers[8]), a7 = hn::Set(d, numbers[9]), a8 = hn::Set(d, numbers[10]);
  auto a9 = hn::Set(d, numbers[11]), a10 = hn::Set(d, numbers[12]), a11 = hn::Set(d, numbers[13]);
  for (int64_t round = 0; round < rounds; ++round) {
    a0 = hn::MulAdd(a0, x, y);
    a1 = hn::MulAdd(a1, x, y);
    a2 = hn::MulAdd(a2, x, y);
    a3 = hn::MulAdd(a3, x, y);
    a4 = hn::MulAdd(a4, x, y);
    a5 = hn::MulAdd(a5, x, y);
    a6 = hn::MulAdd(a6, x, y);
    a7 = hn::MulAdd(a7, x, y);
    a8 = hn::MulAdd(a8, x, y);
    a9 = hn::MulAdd(a9, x, y);
    a10 = hn::MulAdd(a10, x, y);
    a11 = hn::MulAdd(a11, x, y);
  }
  const auto low = hn::Add(hn::Add(hn::Add(a0, a1), hn::Add(a2, a3)), hn::Add(a4, a5));
  const auto high = hn::Add(hn::Add(hn::Add(a6, a7), hn::Add(a8, a9)), hn::Add(a10, a11));
  numbers[14] = hn::GetLane(hn::Add(low, high));
  return static_cast<double>(rounds) * 12 * 2 * static_cast<double>(hn::Lanes(d));
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::bench {
namespace {

HWY_EXPORT(fma_rounds);
HWY_EXPORT(target_name);

double gflops(int64_t rounds) {
  volatile float numbers[15] = {0.999f, 1e-4f, 0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f,
                                0.7f,   0.8f,  0.9f, 1.0f, 1.1f, 1.2f, 0.0f};
  const auto start = std::chrono::steady_clock::now();
  const double flops = HWY_DYNAMIC_DISPATCH(fma_rounds)(rounds, numbers);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return flops / time.count() * 1e-9;
}

}  // namespace

double fma_gflops(int threads) {
  constexpr int64_t kRounds = 1'000'000;
  std::vector<double> rates(threads);
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) {
    others.emplace_back([&rates, t] { rates[t] = gflops(kRounds); });
  }
  rates[0] = gflops(kRounds);
  for (std::thread& other : others) other.join();
  return threads * *std::min_element(rates.begin(), rates.end());
}

std::string simd_target() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace headwise::bench
#endif
