// The peer: what we measure ourselves against, a Python process that runs peer.py.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "harness.h"
#include "report.h"
#include "subprocess.h"

namespace headwise::bench {

/// Stands still except during its own calls, lest its threads spin while ours are timed.
class Peer {
 public:
  /// `cases` names the file peer_CASES.py.
  Peer(const Options& options, const std::string& cases);

  void prepare(const nlohmann::json& one_case);
  Sample time(int64_t reps);
  std::vector<float> outputs();  // of the case, one after the other

 private:
  std::string ask(const std::string& request);
  std::string answer();

  Subprocess process_;
};

/// Throws Error unless our numbers are the peer's up to `tolerance` of the largest of them; `name`
/// is what was computed.
void require_near(const std::string& name, std::span<const float> ours, std::span<const float> peer,
                  double tolerance);

}  // namespace headwise::bench
