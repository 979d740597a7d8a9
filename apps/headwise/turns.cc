// Who is next.
#include "turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>

#include "engine.h"

namespace headwise::program {

FairOrder::Turn FairOrder::arrive(const std::string& client) {
  Turn& next = next_.try_emplace(client, now_).first->second;
  return next++;
}

void FairOrder::serve(Turn turn) {
  now_ = std::max(now_, turn);
  std::erase_if(next_, [&](const auto& one) { return one.second <= now_; });
}

struct Turns::State {
  explicit State(const Limits& given) : limits(given) {}

  struct Waiting {
    std::string client;
    FairOrder::Turn turn;
    bool granted = false;
    std::condition_variable wake{};
  };

  static Busy too_many(size_t waiting, int retry_after) {
    return {.detail = {.what = "too many requests wait for the model",
                       .got = fmt::format("{} that wait", waiting),
                       .hint = "try again in a moment"},
            .retry_after = retry_after};
  }

  /// Gives free places to those whose turn it is.
  void grant() {
    while (taken < limits.places) {
      const auto may = [&](const Waiting* one) {
        const auto own = held.find(one->client);
        return own == held.end() || own->second < limits.of_each;
      };
      auto next = waiting.end();
      for (auto at = waiting.begin(); at != waiting.end(); ++at) {
        if (may(*at) && (next == waiting.end() || (*at)->turn < (*next)->turn)) next = at;
      }
      if (next == waiting.end()) return;
      Waiting& one = **next;
      size_t& own = held[one.client];  // may throw: first
      waiting.erase(next);
      order.serve(one.turn);
      ++own;
      ++taken;
      one.granted = true;
      one.wake.notify_one();
    }
  }

  void take(const std::string& client) {
    std::unique_lock lock(mutex);
    const auto others = static_cast<size_t>(
        std::ranges::count_if(waiting, [&](const Waiting* one) { return one->client == client; }));
    if (others >= limits.waiting_of_each) throw too_many(others, 1);
    Waiting own{.client = client, .turn = order.arrive(client)};
    const auto leave = [&](Waiting* one) { std::erase(waiting, one); };
    waiting.push_back(&own);
    const std::unique_ptr<Waiting, decltype(leave)> leaving(&own, leave);
    grant();
    own.wake.wait_for(lock, limits.patience, [&] { return own.granted || stopping; });
    if (own.granted) return;
    if (stopping) throw Busy::stopping();
    throw too_many(waiting.size(), 5);
  }

  void give_back(const std::string& client) {
    const std::lock_guard lock(mutex);
    --taken;
    const auto own = held.find(client);
    if (--own->second == 0) held.erase(own);
    grant();
  }

  Limits limits;
  std::mutex mutex{};
  FairOrder order{};
  std::list<Waiting*> waiting{};  // in the order in which they came
  std::map<std::string, size_t> held{};
  size_t taken = 0;
  bool stopping = false;
};

Turns::Turns(const Limits& limits) : state_(std::make_shared<State>(limits)) {}

Turns::Place Turns::take(const std::string& client) {
  state_->take(client);
  return {nullptr, [state = state_, client](void*) { state->give_back(client); }};
}

void Turns::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  for (State::Waiting* one : state_->waiting) one->wake.notify_one();
}

}  // namespace headwise::program
