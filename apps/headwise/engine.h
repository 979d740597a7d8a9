// The one thread that works with the model for headwise serve: short works in the order they come,
// and jobs, one after the other in fair turns, that let short works in between their steps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "headwise/core/error.h"
#include "turns.h"

namespace headwise::program {

/// There is no room for more work, or no time.
struct Busy {
  ErrorDetail detail{};
  int retry_after = 1;  // seconds

  static Busy stopping();  // the server ends
};

enum class JobState { queued, running, done, failed, cancelled };
std::string_view to_string(JobState state);

class Engine {
 public:
  using Json = nlohmann::ordered_json;

  struct Limits {
    size_t waiting = 32;                         // short works
    size_t jobs = 64;                            // that wait, beside the one that runs
    size_t jobs_of_each = 4;                     // of these, of one client
    size_t finished = 16;                        // jobs that are remembered
    std::chrono::milliseconds patience{30'000};  // with a short work, from its coming on
  };

  /// Says how far a job is; throws if it was cancelled.
  using Report = std::function<void(std::string_view what, int64_t done, int64_t total)>;
  using Job = std::function<Json(const Report& report)>;

  /// What is known of a job.
  struct JobStatus {
    std::string id{}, kind{}, what{};
    JobState state = JobState::queued;
    int64_t done = 0, total = 0;
    Json result{};
    std::optional<ErrorDetail> error{};
  };

  explicit Engine(const Limits& limits);
  ~Engine();

  /// Does the work on the engine's thread, and waits for it. Throws what the work throws, and Busy
  /// if too much waits, it takes too long or the engine stops.
  void run(const std::function<void()>& work);

  /// The id of the new job. Throws Busy if too many wait. Clients take fair turns.
  std::string start(const std::string& kind, Job job, const std::string& client = "");
  std::optional<JobStatus> find(const std::string& id) const;
  /// What was queued or is running is stopped, at its next step at the latest.
  std::optional<JobStatus> cancel(const std::string& id);

  /// Takes no more work and gives up what is under way.
  void stop();

 private:
  struct Short;
  struct Long;
  using Lock = std::unique_lock<std::mutex>;

  void loop();
  void do_short(Lock& lock);
  void do_job(Lock& lock);
  Long* next_job();
  void forget_old();

  Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Short>> short_;
  std::list<std::shared_ptr<Long>> jobs_;  // in the order they came; also those that ended
  FairOrder order_;                        // of jobs
  bool stopping_ = false;
  std::thread thread_;
};

/// Sixteen hexadecimal digits that nobody can guess.
std::string random_id();

}  // namespace headwise::program
