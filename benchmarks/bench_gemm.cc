// The matrix product of transformer layers: ours against the BLAS libraries that are installed,
// opened at run time so that none is needed to build.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "harness.h"
#include "headwise/core/parallel.h"
#include "headwise/kernels/gemm.h"
#include "report.h"

namespace headwise::bench {
namespace {

struct Shape {
  int64_t M, N, K;
  double flops() const { return 2.0 * static_cast<double>(M * N * K); }
};

/// x[M, K] and weights[N, K]. With few rows, so many copies of the weights that they are not in a
/// cache when their turn comes, as when a model runs.
struct Operands {
  explicit Operands(Shape s) : shape(s), x(s.M * s.K), out(s.M * s.N) {
    constexpr int64_t kCold = 24 << 20;  // floats: more than the caches together
    const int64_t size = s.N * s.K;
    const int64_t copies = s.M <= 32 ? std::max<int64_t>(1, kCold / size) : 1;
    std::fill_n(x.data(), x.size(), 0.5f);
    for (int64_t i = 0; i < copies; ++i) {
      plain.emplace_back(size);
      std::fill_n(plain.back().data(), size, 0.25f);
      packed.emplace_back(View<const float, 2>(plain.back().data(), {s.N, s.K}));
    }
  }

  Shape shape;
  Buffer x, out;
  std::vector<Buffer> plain;
  std::vector<PackedWeights> packed;
};

using Multiply = std::function<void(const Operands&, size_t copy)>;

struct Library {
  std::string name;
  Multiply multiply;
};

void ours(const Operands& o, size_t copy) {
  linear(o.x.view({o.shape.M, o.shape.K}), o.packed[copy], o.out.view({o.shape.M, o.shape.N}));
}

Multiply cblas(void* symbol) {
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  return [sgemm = reinterpret_cast<Sgemm>(symbol)](const Operands& o, size_t copy) {
    constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
    const int m = static_cast<int>(o.shape.M), n = static_cast<int>(o.shape.N),
              k = static_cast<int>(o.shape.K);
    sgemm(kRowMajor, kNoTrans, kTrans, m, n, k, 1, o.x.data(), k, o.plain[copy].data(), k, 0,
          o.out.data(), n);
  };
}

Multiply dnnl(void* symbol) {
  using Sgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float*, int64_t,
                        const float*, int64_t, float, float*, int64_t);
  return [sgemm = reinterpret_cast<Sgemm>(symbol)](const Operands& o, size_t copy) {
    const auto& [m, n, k] = o.shape;
    sgemm('N', 'T', m, n, k, 1, o.x.data(), k, o.plain[copy].data(), k, 0, o.out.data(), n);
  };
}

/// The libraries there are. They take their number of threads from the environment when they are
/// opened.
std::vector<Library> open_libraries(int threads) {
  for (const char* variable : {"OMP_NUM_THREADS", "BLIS_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    setenv(variable, std::to_string(threads).c_str(), 1);
  }
  std::vector<Library> libraries;
  const auto open = [&](const char* name, const char* file, const char* symbol, auto adapt) {
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void* const found = library == nullptr ? nullptr : dlsym(library, symbol);
    if (found == nullptr) {
      fmt::print(stderr, "{} is not there ({})\n", name, file);
    } else {
      libraries.push_back({name, adapt(found)});
    }
  };
  open("OpenBLAS", "libopenblas.so.0", "cblas_sgemm", cblas);
  open("BLIS", "libblis.so.4", "cblas_sgemm", cblas);
  open("oneDNN", "libdnnl.so.2", "dnnl_sgemm", dnnl);
  return libraries;
}

void measure(const Options& options, Report& report) {
  if (options.threads.size() != 1) {
    throw Error({.what = "bench gemm: one number of threads at a time, libraries keep theirs",
                 .hint = "pass --threads 1, then --threads 2"});
  }
  const int threads = options.threads[0];
  set_threads(threads);
  const std::vector<Library> libraries = open_libraries(threads);
  Harness harness(options.quick ? Harness::Settings{.samples = 5, .race_seconds = 1}
                                : Harness::Settings{});
  for (const auto& [n, k] :
       {std::pair{64, 768}, {384, 384}, {768, 768}, {3072, 768}, {768, 3072}}) {
    for (const int m : {1, 4, 16, 32, 64, 128, 192, 512, 2048}) {
      const std::string name = fmt::format("gemm M={} N={} K={} threads={}", m, n, k, threads);
      if (!options.select(name)) continue;
      const Operands operands({m, n, k});
      std::vector<Timer> sides;
      size_t turn = 0;
      const auto side = [&](const Multiply& multiply) {
        sides.push_back(
            timer_of([&, multiply] { multiply(operands, turn++ % operands.packed.size()); }));
      };
      side(ours);
      for (const Library& library : libraries) side(library.multiply);
      const std::vector<Timing> timings = harness.race(threads, sides);
      const auto rate = [&](size_t i) {
        return operands.shape.flops() / timings[i].seconds * 1e-9;
      };
      for (size_t i = 0; i < libraries.size(); ++i) {
        report.add({.name = fmt::format("{} {}", name, libraries[i].name),
                    .unit = "GFLOP/s",
                    .ours = rate(0),
                    .peer = rate(i + 1),
                    .ratio = rate(0) / rate(i + 1),
                    .goal = 1,
                    .disturbed = timings[0].disturbed || timings[i + 1].disturbed});
      }
    }
  }
}

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  return headwise::bench::run_benchmark(
      argc, argv, "bench gemm: ours and the BLAS libraries installed, interleaved",
      headwise::bench::measure);
}
