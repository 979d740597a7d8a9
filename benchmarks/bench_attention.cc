// Attention: ours against PyTorch's, the cost of statistics, the share of the machine's peak, and
// memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>

#include "attention_memory.h"
#include "attention_problem.h"
#include "harness.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "peer.h"
#include "report.h"

namespace headwise::bench {
namespace {

constexpr int64_t kHeads = 8;
constexpr int64_t kLeastRows = 1024;       // shorter sequences come in batches
constexpr int64_t kLongestForMaps = 2048;  // the peer stores maps: no longer than this
constexpr double kTolerance = 1e-4;

/// Throws if two results differ: a benchmark of a wrong result is worthless.
void require_equal(const std::string& name, const char* what, std::span<const float> ours,
                   std::span<const float> peer, double absolute) {
  double worst = ours.size() == peer.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(ours.size(), peer.size()); ++i) {
    const double excess = std::abs(ours[i] - peer[i]) - kTolerance * std::abs(peer[i]);
    worst = std::isnan(excess) ? INFINITY : std::max(worst, excess);
  }
  if (worst <= absolute) return;
  throw Error({.what = fmt::format("bench attention: our {} is not the peer's", what),
               .where = name,
               .got = fmt::format("a difference of {}", worst),
               .expected = fmt::format("at most {} + {} relative", absolute, kTolerance)});
}

/// What the largest number of a tensor allows the others to differ by.
double allowance(std::span<const float> numbers) {
  float largest = 0;
  for (const float x : numbers) largest = std::max(largest, std::abs(x));
  return kTolerance * largest;
}

class AttentionBenchmark {
 public:
  AttentionBenchmark(const Options& options, Report& report)
      : options_(options),
        report_(report),
        harness_(options.quick ? Harness::Settings{.samples = 5, .race_seconds = 1}
                               : Harness::Settings{}) {
    if (!options.peer.empty()) peer_ = std::make_unique<Peer>(options, "attention");
  }

  void run();

 private:
  enum class Op { kForward, kForwardBackward, kStatistics };

  void against_peer(Op op, const AttentionShape& shape, int threads);
  void overhead(const AttentionShape& shape, int threads);
  void memory();
  void check(Op op, const std::string& name, AttentionProblem& problem);

  const Options& options_;
  Report& report_;
  Harness harness_;
  std::unique_ptr<Peer> peer_;
};

std::string sizes(const AttentionShape& shape, int threads) {
  return fmt::format("D={} N={} threads={}", shape.D, shape.N, threads);
}

double goal_of_forward(const AttentionShape& shape) {
  if (!shape.causal) return 1.15;
  return shape.N <= 512 ? 1.7 : 1.35;
}

double goal_of_forward_backward(const AttentionShape& shape) {
  if (!shape.causal) return 1.1;
  return shape.N <= 512 ? 2.0 : 1.4;
}

void AttentionBenchmark::check(Op op, const std::string& name, AttentionProblem& problem) {
  const std::vector<float> theirs = peer_->outputs();
  const std::vector<float> output = problem.output();
  const auto part = [&](size_t begin, size_t count) {
    return std::span(theirs).subspan(
        std::min(begin, theirs.size()),
        std::min(count, theirs.size() - std::min(begin, theirs.size())));
  };
  const auto out = part(0, output.size());
  require_equal(name, "output", output, out, allowance(out));
  if (op == Op::kForwardBackward) {
    const std::vector<float> gradients = problem.gradients();
    const char* names[] = {"gradient of q", "gradient of k", "gradient of v"};
    for (size_t which = 0; which < 3; ++which) {
      const auto gradient = part((1 + which) * output.size(), output.size());
      require_equal(name, names[which],
                    std::span(gradients).subspan(which * output.size(), output.size()), gradient,
                    allowance(gradient));
    }
  } else if (op == Op::kStatistics) {
    const std::vector<float> means = problem.statistics_means();
    constexpr size_t kShares = 2 * kMaxOffset + 1, kMeans = 13 + kShares;
    for (size_t at = 0; at < means.size(); at += kMeans) {
      const auto ours = std::span(means).subspan(at, kMeans);
      const auto peer = part(output.size() + at, kMeans);
      require_equal(name, "statistic", ours.first(kMeans - kShares),
                    peer.first(std::min(peer.size(), kMeans - kShares)), kTolerance);
      // A near tie may give the largest weight of a few rows to another key.
      require_equal(name, "offset share", ours.last(kShares),
                    peer.last(std::min(peer.size(), kShares)),
                    4.0 / static_cast<double>(kLeastRows));
    }
  }
}

void AttentionBenchmark::against_peer(Op op, const AttentionShape& shape, int threads) {
  const char* names[] = {"forward", "forward+backward", "statistics"};
  const std::string op_name = names[static_cast<int>(op)];
  const std::string name =
      fmt::format("{}{}{} {}", shape.fused ? "fused-" : "", shape.causal ? "causal-" : "", op_name,
                  sizes(shape, threads));
  const std::string peak_name = "fma-peak " + sizes(shape, threads);
  const bool of_peak = op == Op::kForward && !shape.causal && !shape.fused && threads == 1 &&
                       shape.D == 64 && shape.N >= 512;
  if (!options_.select(name) && !(of_peak && options_.select(peak_name))) return;

  set_threads(threads);
  AttentionProblem problem(shape);
  const auto call = [&] {
    if (op == Op::kStatistics) {
      problem.observed_forward();
    } else {
      problem.forward();
    }
    if (op == Op::kForwardBackward) problem.backward();
  };
  call();
  std::vector<Timer> sides{timer_of(call)};
  if (peer_) {
    peer_->prepare({{"op", op_name},
                    {"B", shape.B},
                    {"H", shape.H},
                    {"N", shape.N},
                    {"D", shape.D},
                    {"causal", shape.causal},
                    {"fused", shape.fused},
                    {"threads", threads}});
    try {
      check(op, name, problem);
    } catch (const Error& error) {
      return report_.refused(error);
    }
    sides.push_back([this](int64_t reps) { return peer_->time(reps); });
  }
  const std::vector<Timing> timings = harness_.race(threads, sides);

  Result result{.name = name, .unit = "GFLOP/s"};
  const double flops =
      op == Op::kForwardBackward ? forward_backward_flops(shape) : forward_flops(shape);
  result.ours = flops / timings[0].seconds * 1e-9;
  result.disturbed = timings[0].disturbed;
  if (peer_) {
    result.peer = flops / timings[1].seconds * 1e-9;
    result.ratio = result.ours / *result.peer;
    result.disturbed |= timings[1].disturbed;
  }
  result.goal = op == Op::kForward           ? goal_of_forward(shape)
                : op == Op::kForwardBackward ? goal_of_forward_backward(shape)
                                             : (shape.N >= 512 ? 2.3 : 1.9);
  report_.add(result);

  if (of_peak) {
    const double peak = harness_.fma_peak(1);
    result.name = peak_name;
    result.unit = "fraction of FMA peak";
    result.ours /= peak;
    if (peer_) *result.peer /= peak;
    result.goal = 0.8;
    result.goal_is_of_ours = true;
    report_.add(result);
  }
}

void AttentionBenchmark::overhead(const AttentionShape& shape, int threads) {
  const std::string name = "statistics-overhead " + sizes(shape, threads);
  if (!options_.select(name)) return;
  set_threads(threads);
  AttentionProblem problem(shape);
  const std::vector<Timing> timings = harness_.race(
      threads,
      {timer_of([&] { problem.observed_forward(); }), timer_of([&] { problem.forward(); })});
  report_.add({.name = name,
               .unit = "ms with, without",
               .ours = timings[0].seconds * 1e3,
               .peer = timings[1].seconds * 1e3,
               .ratio = timings[0].seconds / timings[1].seconds,
               .goal = shape.D == 64 ? 1.10 : 1.16,
               .higher_is_better = false,
               .disturbed = timings[0].disturbed || timings[1].disturbed});
}

void AttentionBenchmark::memory() {
  const int64_t N = options_.quick ? 8192 : 32768;
  const int threads = *std::max_element(options_.threads.begin(), options_.threads.end());
  const std::string sizes = fmt::format("D=64 N={} threads={}", N, threads);
  if (!options_.select("memory " + sizes)) return;
  const AttentionMemory memory = measure_attention_memory(N, threads);
  fmt::print(stderr, "memory {}: {:.1f} MiB resident at most\n", sizes, memory.resident_mib);
  report_.add({.name = "memory " + sizes,
               .unit = "MiB of working memory",
               .ours = memory.working_mib,
               .goal = 64,
               .higher_is_better = false,
               .goal_is_of_ours = true});
}

void AttentionBenchmark::run() {
  memory();
  const std::vector<int64_t> lengths = options_.quick
                                           ? std::vector<int64_t>{128, 512, 2048}
                                           : std::vector<int64_t>{128, 256, 512, 1024, 2048, 4096};
  for (const int threads : options_.threads) {
    for (const int64_t D : {32, 64}) {
      for (const int64_t N : lengths) {
        AttentionShape shape{
            .B = std::max<int64_t>(1, kLeastRows / N), .H = kHeads, .N = N, .D = D};
        for (const bool causal : {false, true}) {
          shape.causal = causal;
          against_peer(Op::kForward, shape, threads);
          against_peer(Op::kForwardBackward, shape, threads);
        }
        if (N == 128 || N == 512 || N == 2048) {
          for (const bool causal : {false, true}) {
            shape = {.B = shape.B, .H = kHeads, .N = N, .D = D, .causal = causal, .fused = true};
            against_peer(Op::kForward, shape, threads);
            against_peer(Op::kForwardBackward, shape, threads);
          }
        }
        shape.causal = shape.fused = false;
        overhead(shape, threads);
        if (N <= kLongestForMaps) against_peer(Op::kStatistics, shape, threads);
      }
    }
  }
}

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  using namespace headwise::bench;
  if (ran_as_memory_child(argc, argv)) return 0;
  return run_benchmark(
      argc, argv, "bench attention: ours and PyTorch's, interleaved",
      [](const Options& options, Report& report) { AttentionBenchmark(options, report).run(); });
}
