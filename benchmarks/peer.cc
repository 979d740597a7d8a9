// The line protocol that peer.py describes, from this side.
#include "peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headwise/core/error.h"

namespace headwise::bench {

Peer::Peer(const Options& options, const std::string& cases)
    : process_({options.peer, HEADWISE_PEER_SCRIPT, cases,
                options.peer_as_installed ? "default" : "jemalloc"}) {
  const auto hello = nlohmann::json::parse(answer());
  const bool jemalloc = hello.at("jemalloc").get<bool>();
  fmt::print(stderr, "peer: PyTorch {}, {}\n", hello.at("torch").get<std::string>(),
             jemalloc ? "jemalloc" : "default allocator");
  if (!jemalloc && !options.peer_as_installed) {
    fmt::print(stderr,
               "peer: libjemalloc.so.2 was not found; with the default allocator PyTorch is slower "
               "than it could be, and ratios flatter us\n");
  }
  process_.stop();
}

std::string Peer::answer() {
  const std::string line = process_.read_line();
  if (line.starts_with("ok ")) return line.substr(3);
  if (line.starts_with("error ")) {
    throw Error({.what = "peer: the Python side failed",
                 .where = "peer.py",
                 .got = nlohmann::json::parse(line.substr(6)).get<std::string>(),
                 .hint = "--peer must name an interpreter that has torch"});
  }
  throw Error({.what = "peer: the answer was not understood", .where = "peer.py", .got = line});
}

std::string Peer::ask(const std::string& request) {
  process_.resume();
  process_.write_line(request);
  return answer();
}

void Peer::prepare(const nlohmann::json& one_case) {
  ask("prepare " + one_case.dump());
  process_.stop();
}

Sample Peer::time(int64_t reps) {
  const std::string times = ask(fmt::format("time {}", reps));
  process_.stop();
  size_t end = 0;
  const double seconds = std::stod(times, &end);
  return {.seconds = seconds, .cpu_seconds = std::stod(times.substr(end))};
}

std::vector<float> Peer::outputs() {
  const size_t bytes = std::stoull(ask("outputs"));
  std::vector<float> numbers(bytes / sizeof(float));
  process_.read_bytes(reinterpret_cast<char*>(numbers.data()), bytes);
  process_.stop();
  return numbers;
}

void require_near(const std::string& name, std::span<const float> ours, std::span<const float> peer,
                  double tolerance) {
  double largest = 0, worst = ours.size() == peer.size() ? 0 : INFINITY;
  for (const float x : peer) largest = std::max<double>(largest, std::abs(x));
  for (size_t i = 0; i < std::min(ours.size(), peer.size()); ++i) {
    const double error = std::abs(ours[i] - peer[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  if (worst <= tolerance * largest) return;
  throw Error(
      {.what = "bench: our numbers are not the peer's",
       .where = name,
       .got = fmt::format("{} and {} values, a difference of {}", ours.size(), peer.size(), worst),
       .expected = fmt::format("at most {}", tolerance * largest)});
}

}  // namespace headwise::bench
