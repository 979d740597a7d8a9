// The parent starts this program again, or another one, and waits for it.
#include "model_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "headwise/core/error.h"
#include "headwise/model/model.h"
#include "model_problem.h"
#include "process_status.h"
#include "subprocess.h"

namespace headwise::bench {
namespace {

constexpr std::string_view kChild = "--memory-child";
constexpr int kRuns = 15;

ProgramRun run_once(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (status != 0) {
    throw Error({.what = "bench model: the program failed",
                 .where = fmt::format("{}", fmt::join(command, " ")),
                 .got = fmt::format("status {}", status)});
  }
  return {.seconds = taken.count(), .resident_mib = static_cast<double>(usage.ru_maxrss) / 1024};
}

}  // namespace

double measure_model_memory(const std::filesystem::path& folder,
                            const std::vector<int64_t>& lengths) {
  std::vector<std::string> command = {"/proc/self/exe", std::string(kChild), folder.string()};
  for (const int64_t length : lengths) command.push_back(fmt::format("{}", length));
  return std::stod(Subprocess(command).read_line());
}

bool ran_as_memory_child(int argc, char** argv) {
  if (argc < 4 || argv[1] != kChild) return false;
  const Model model = load(argv[2]);
  std::vector<int64_t> lengths;
  for (int i = 3; i < argc; ++i) lengths.push_back(std::stoll(argv[i]));
  (void)model.forward(texts({8}));
  const TokenBatch batch = texts(lengths);
  StatisticsObserver observer(model, batch);
  const int64_t before = status_kib("VmRSS");
  (void)model.forward(batch, {.observer = &observer});
  fmt::print("{}\n", static_cast<double>(status_kib("VmHWM") - before) / 1024);
  return true;
}

ProgramRun measure_program(const std::vector<std::string>& command) {
  std::vector<double> seconds;
  double resident = 0;
  for (int i = 0; i < kRuns; ++i) {
    const ProgramRun run = run_once(command);
    seconds.push_back(run.seconds);
    resident = std::max(resident, run.resident_mib);
  }
  std::ranges::nth_element(seconds, seconds.begin() + kRuns / 2);
  return {.seconds = seconds[kRuns / 2], .resident_mib = resident};
}

}  // namespace headwise::bench
