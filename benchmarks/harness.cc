// Interleaved sampling, and which samples count.
#include "harness.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "core_distance.h"
#include "fma_probe.h"

namespace headwise::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Threads of the peer spin for some milliseconds after a parallel loop; whoever is next waits for
/// that.
constexpr auto kSettle = std::chrono::milliseconds(8);

constexpr double kLong = 10;  // seconds: what takes longer needs no warming up
constexpr int kFirstProbes = 40;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

Timer timer_of(std::function<void()> call) {
  return [call = std::move(call)](int64_t reps) {
    const auto start = Clock::now();
    const double cpu_start = cpu_seconds();
    for (int64_t rep = 0; rep < reps; ++rep) call();
    return Sample{.seconds = seconds_since(start), .cpu_seconds = cpu_seconds() - cpu_start};
  };
}

Harness::Probe Harness::probe(int threads) {
  const Probe now{fma_gflops(threads), threads > 1 ? core_distance() : 0};
  peaks_[threads] = std::max(peaks_[threads], now.peak);
  if (threads > 1) nearest_ = std::min(nearest_, now.distance);
  return now;
}

double Harness::fma_peak(int threads) {
  if (!peaks_.contains(threads)) {
    for (int i = 0; i < kFirstProbes; ++i) probe(threads);
  }
  return peaks_[threads];
}

std::vector<Timing> Harness::race(int threads, const std::vector<Timer>& sides) {
  fma_peak(threads);
  std::vector<std::vector<Probed>> samples(sides.size());
  const auto start = Clock::now();
  Probe before = probe(threads);
  const auto take = [&](size_t side, int64_t reps) {
    const Sample sample = sides[side](reps);
    std::this_thread::sleep_for(kSettle);
    const Probe after = probe(threads);
    samples[side].push_back({.seconds = sample.seconds / static_cast<double>(reps),
                             .cpu_share = sample.cpu_seconds / sample.seconds,
                             .peak = std::min(before.peak, after.peak),
                             .distance = std::max(before.distance, after.distance)});
    before = after;
    return sample.seconds;
  };
  std::vector<int64_t> reps;
  for (size_t i = 0; i < sides.size(); ++i) {
    if (take(i, 1) > kLong) {  // that counts
      reps.push_back(1);
      continue;
    }
    const double once = take(i, 1);
    reps.push_back(std::max<int64_t>(1, std::llround(std::ceil(settings_.sample_seconds / once))));
    samples[i].clear();
  }

  const auto enough = [&] {
    return std::all_of(samples.begin(), samples.end(), [&](const std::vector<Probed>& side) {
      return count_quiet(side, threads) >= settings_.samples;
    });
  };
  const auto least = [&] {
    return std::ranges::all_of(
        samples, [&](const auto& side) { return std::ssize(side) >= settings_.least_samples; });
  };
  while (!enough()) {
    if (least() && seconds_since(start) > settings_.race_seconds) break;
    for (size_t i = 0; i < sides.size(); ++i) take(i, reps[i]);
  }

  std::vector<Timing> timings;
  for (const std::vector<Probed>& side : samples) timings.push_back(judge(side, threads));
  return timings;
}

std::vector<double> Harness::quality(const std::vector<Probed>& samples, int threads) const {
  double best_share = 1;  // there is always work for one thread; under steady load no sample has it
  for (const Probed& sample : samples) best_share = std::max(best_share, sample.cpu_share);
  std::vector<double> qualities;
  for (const Probed& sample : samples) {
    const bool near = threads == 1 || sample.distance <= settings_.near * nearest_;
    qualities.push_back(
        near ? std::min(sample.peak / peaks_.at(threads), sample.cpu_share / best_share) : 0);
  }
  return qualities;
}

int Harness::count_quiet(const std::vector<Probed>& samples, int threads) const {
  const std::vector<double> qualities = quality(samples, threads);
  return static_cast<int>(std::count_if(qualities.begin(), qualities.end(),
                                        [&](double q) { return q >= settings_.quiet; }));
}

Timing Harness::judge(const std::vector<Probed>& samples, int threads) const {
  const std::vector<double> qualities = quality(samples, threads);
  const int taken = static_cast<int>(samples.size());
  int kept = count_quiet(samples, threads);
  const bool disturbed = kept < settings_.least_samples;
  if (disturbed) kept = (taken + 1) / 2;

  std::vector<int> order(taken);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return qualities[a] > qualities[b]; });
  std::vector<double> seconds;
  for (int i = 0; i < kept; ++i) seconds.push_back(samples[order[i]].seconds);
  return {.seconds = median(seconds), .kept = kept, .taken = taken, .disturbed = disturbed};
}

}  // namespace headwise::bench
