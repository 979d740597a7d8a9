// Fair turns of the clients of headwise serve: who asks seldom does not wait behind those who ask
// much.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace headwise::program {

/// Start-time fair queueing. What is waiting is served in the order of its turns, and equal turns
/// in the order of arrival: each client that waits is served once in a round.
class FairOrder {
 public:
  using Turn = uint64_t;

  /// The turn of something that arrives.
  Turn arrive(const std::string& client);

  /// What has this turn is served now.
  void serve(Turn turn);

 private:
  Turn now_ = 0;
  std::map<std::string, Turn> next_;  // of clients who are ahead of now_
};

/// Some places, which clients take in fair turns. One client has at most a part of them, so that
/// others find one even while it keeps all that it may.
class Turns {
 public:
  struct Limits {
    size_t places = 32, of_each = 8;
    size_t waiting_of_each = 192;  // fewer than connections: others can still come and wait
    std::chrono::milliseconds patience{30'000};
  };
  using Place = std::shared_ptr<void>;  // given back when the last copy is destroyed

  explicit Turns(const Limits& limits);

  /// Waits for a place. Throws Busy if none becomes free in time, if too many of this client wait,
  /// or after stop().
  Place take(const std::string& client);

  /// Those who wait are told so. What was taken may outlive this object.
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headwise::program
