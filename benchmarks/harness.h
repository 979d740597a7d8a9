// Times two or more sides against each other on a machine that is never quite quiet.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <vector>

namespace headwise::bench {

/// What some repetitions took together; the CPU's seconds are those of all threads.
struct Sample {
  double seconds = 0, cpu_seconds = 0;
};
using Timer = std::function<Sample(int64_t reps)>;

/// Calls `call` that often and times it.
Timer timer_of(std::function<void()> call);

/// What is known of one side after a race.
struct Timing {
  double seconds = 0;       // of one repetition: the median of the samples kept
  int kept = 0, taken = 0;  // samples
  bool disturbed = false;   // too few samples were quiet: the least disturbed half was kept
};

class Harness {
 public:
  struct Settings {
    double sample_seconds = 0.02;  // a sample repeats the call until it lasts that long
    int samples = 9;               // quiet ones wanted of each side
    int least_samples = 3;         // taken of each side even when time has run out
    double race_seconds = 4;       // after which no round is begun
    double quiet = 0.93;           // of the best probe, before and after a quiet sample, and of the
                                   // side's best share of the CPU during it
    double near = 3;               // how many times as far as nearest two cores may be then
  };
  explicit Harness(const Settings& settings) : settings_(settings) {}

  /// Samples the sides in turn, between any two samples a probe of the FMA peak and of how near the
  /// cores are, and returns one Timing per side. `threads` is what the sides use.
  std::vector<Timing> race(int threads, const std::vector<Timer>& sides);

  /// The best probe seen so far, GFLOP/s.
  double fma_peak(int threads);

 private:
  struct Probed {
    double seconds;    // of one repetition
    double cpu_share;  // CPU's seconds per second: below its best, others had the CPU
    double peak;       // the worse of the probes before and after
    double distance;   // the same
  };
  struct Probe {
    double peak, distance;
  };
  Probe probe(int threads);
  std::vector<double> quality(const std::vector<Probed>& samples, int threads) const;
  int count_quiet(const std::vector<Probed>& samples, int threads) const;
  Timing judge(const std::vector<Probed>& samples, int threads) const;

  Settings settings_;
  std::map<int, double> peaks_;  // by threads
  double nearest_ = std::numeric_limits<double>::infinity();
};

}  // namespace headwise::bench
