// Compares our matrix product with BLAS libraries, opened at run time so that none is needed to
// build.
//
//   gemm_libraries 1 openblas=libopenblas.so.0 blis=libblis.so.4 onednn=libdnnl.so.2 > table.md
//
// The first argument is the number of threads; set OMP_NUM_THREADS to the same. Contestants take
// turns; samples next to a disturbed probe are dropped; the table gives medians in GFLOP/s. Weights
// are cold (larger than the caches together) where M is at most 32, as they are when a model runs.
#include <dlfcn.h>
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "headwise/core/parallel.h"
#include "headwise/kernels/gemm.h"

namespace {

using headwise::Buffer;
using headwise::PackedWeights;
using headwise::View;

constexpr int64_t kCold = 24 << 20;  // floats: three times the L3 of the machines in mind
constexpr double kUndisturbed = 0.85;

int threads = 1;

/// With one thread the time this thread ran, so that being scheduled out does not count.
double now() {
  timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Shape {
  int64_t m, n, k;
  double flop() const { return 2.0 * static_cast<double>(m * n * k); }
};

struct Operands {
  explicit Operands(Shape s) : shape(s), x(s.m * s.k), out(s.m * s.n) {
    const int64_t size = s.n * s.k;
    copies = s.m <= 32 ? std::max<int64_t>(1, kCold / size) : 1;
    weights = Buffer(copies * size);
    std::fill_n(x.data(), x.size(), 0.5f);
    std::fill_n(weights.data(), weights.size(), 0.25f);
    for (int64_t i = 0; i < copies; ++i) packed.emplace_back(plain(i));
  }
  View<const float, 2> plain(int64_t i) const {
    return {weights.data() + i % copies * shape.n * shape.k, {shape.n, shape.k}};
  }
  View<const float, 2> left() const { return {x.data(), {shape.m, shape.k}}; }
  View<float, 2> result() const { return {out.data(), {shape.m, shape.n}}; }

  Shape shape;
  Buffer x, out, weights;
  int64_t copies;
  std::vector<PackedWeights> packed;
};

using Multiply = std::function<void(const Operands&, int64_t turn)>;
struct Contestant {
  std::string name;
  Multiply multiply;
};

Contestant open_library(const std::string& argument) {
  const auto equals = argument.find('=');
  const std::string name = argument.substr(0, equals);
  void* library = dlopen(argument.substr(equals + 1).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  if (void* found = dlsym(library, "dnnl_sgemm")) {
    using Dnnl = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                         const float*, int64_t, float, float*, int64_t);
    return {name, [sgemm = reinterpret_cast<Dnnl>(found)](const Operands& o, int64_t turn) {
              const auto& [m, n, k] = o.shape;
              sgemm('N', 'T', m, n, k, 1, o.x.data(), k, o.plain(turn).data(), k, 0, o.out.data(),
                    n);
            }};
  }
  using Cblas = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  void* found = dlsym(library, "cblas_sgemm");
  if (found == nullptr) throw std::runtime_error(name + " has no cblas_sgemm");
  return {name, [sgemm = reinterpret_cast<Cblas>(found)](const Operands& o, int64_t turn) {
            constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
            const int m = static_cast<int>(o.shape.m);
            const int n = static_cast<int>(o.shape.n);
            const int k = static_cast<int>(o.shape.k);
            sgemm(kRowMajor, kNoTrans, kTrans, m, n, k, 1, o.x.data(), k, o.plain(turn).data(), k,
                  0, o.out.data(), n);
          }};
}

/// A product that lives in L1, on every thread at once: what it loses, somebody else has taken.
double probe() {
  static const Operands small({24, 16, 128});
  const double begin = now();
  headwise::parallel_for(threads, [](int64_t) {
    const Buffer out(24 * 16);
    for (int i = 0; i < 400; ++i) linear(small.left(), small.packed[0], out.view({24, 16}));
  });
  return 1 / (now() - begin);
}

double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

std::string measure(Shape shape, const std::vector<Contestant>& contestants) {
  const Operands operands(shape);
  const int64_t repeats =
      std::max<int64_t>(shape.m <= 32 ? 8 : 1, static_cast<int64_t>(threads * 1e8 / shape.flop()));
  struct Sample {
    double probe, rate;
  };
  std::vector<std::vector<Sample>> samples(contestants.size());
  double best_probe = 0;
  int64_t turn = 0;
  const double end = now() + 1.5;
  for (int round = 0; round < 40 && now() < end; ++round) {
    for (size_t c = 0; c < contestants.size(); ++c) {
      contestants[c].multiply(operands, turn++);
      const double before = probe();
      const double begin = now();
      for (int64_t i = 0; i < repeats; ++i) contestants[c].multiply(operands, turn++);
      const double seconds = now() - begin;
      const double after = probe();
      best_probe = std::max({best_probe, before, after});
      samples[c].push_back(
          {std::min(before, after), shape.flop() * static_cast<double>(repeats) / seconds * 1e-9});
    }
  }
  std::string row = fmt::format("| {} | {} | {} |", shape.m, shape.n, shape.k);
  for (const auto& of_one : samples) {
    std::vector<double> rates;
    for (const Sample& s : of_one) {
      if (s.probe >= kUndisturbed * best_probe) rates.push_back(s.rate);
    }
    row += rates.empty() ? " – |" : fmt::format(" {:.1f} |", median(rates));
  }
  return row;
}

/// GB/s at which all threads together can read: the limit for few rows. Four streams side by side,
/// as one alone was seen to reach little more than half of it.
double memory_bandwidth() {
  const Buffer data = Buffer::zeros(4 * kCold);
  const auto* words = reinterpret_cast<const uint64_t*>(data.data());
  constexpr int64_t kStream = 1 << 13;
  const int64_t pieces = data.size() / 2 / (4 * kStream);
  std::vector<uint64_t> sums(pieces);
  std::vector<double> rates;
  for (int round = 0; round < 9; ++round) {
    const double begin = now();
    headwise::parallel_for(pieces, [&](int64_t i) {
      const uint64_t* piece = words + i * 4 * kStream;
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (int64_t j = 0; j < kStream; ++j) {
        a += piece[j];
        b += piece[kStream + j];
        c += piece[2 * kStream + j];
        d += piece[3 * kStream + j];
      }
      sums[i] += a + b + c + d;
    });
    rates.push_back(static_cast<double>(data.size()) * sizeof(float) / (now() - begin) * 1e-9);
  }
  return median(rates);
}

}  // namespace

int main(int argc, char** argv) {
  threads = argc > 1 ? std::stoi(argv[1]) : 1;
  headwise::set_threads(threads);
  std::vector<Contestant> contestants;
  for (int i = 2; i < argc; ++i) contestants.push_back(open_library(argv[i]));
  contestants.push_back({"headwise packed", [](const Operands& o, int64_t turn) {
                           linear(o.left(), o.packed[turn % o.copies], o.result());
                         }});
  contestants.push_back({"headwise plain", [](const Operands& o, int64_t turn) {
                           gemm(o.left(), transposed(o.plain(turn)), o.result());
                         }});
  fmt::print("Threads: {}. Memory can be read at {:.1f} GB/s.\n\n| M | N | K |", threads,
             memory_bandwidth());
  for (const auto& contestant : contestants) fmt::print(" {} |", contestant.name);
  fmt::print("\n|---|---|---|");
  for (size_t c = 0; c < contestants.size(); ++c) fmt::print("---|");
  fmt::print("\n");
  for (const auto& [n, k] :
       {std::pair{64, 768}, {768, 768}, {3072, 768}, {768, 3072}, {384, 384}}) {
    for (const int m : {1, 4, 16, 32, 64, 128, 192, 512, 2048}) {
      fmt::print("{}\n", measure({m, n, k}, contestants));
      std::fflush(stdout);
    }
  }
}
