// The parent starts this program again; the child reads its own peak from /proc.
#include "attention_memory.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "attention_problem.h"
#include "headwise/core/parallel.h"
#include "process_status.h"
#include "subprocess.h"

namespace headwise::bench {
namespace {

constexpr std::string_view kChild = "--memory-child";

}  // namespace

AttentionMemory measure_attention_memory(int64_t N, int threads) {
  Subprocess child(
      {"/proc/self/exe", std::string(kChild), fmt::format("{}", N), fmt::format("{}", threads)});
  const std::string line = child.read_line();
  size_t end = 0;
  const double resident = std::stod(line, &end);
  return {.resident_mib = resident, .working_mib = std::stod(line.substr(end))};
}

bool ran_as_memory_child(int argc, char** argv) {
  if (argc != 4 || argv[1] != kChild) return false;
  const int64_t start_kib = status_kib("VmRSS");
  set_threads(std::stoi(argv[3]));
  AttentionProblem problem({.B = 1, .H = 8, .N = std::stoll(argv[2]), .D = 64});
  problem.observed_forward();
  problem.backward();
  const double peak_kib = static_cast<double>(status_kib("VmHWM"));
  const double working_kib =
      peak_kib - static_cast<double>(start_kib) - static_cast<double>(problem.bytes()) / 1024;
  fmt::print("{} {}\n", peak_kib / 1024, working_kib / 1024);
  return true;
}

}  // namespace headwise::bench
