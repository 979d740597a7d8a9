// Turns of clients: rounds, places, time.
#include "turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine.h"

namespace headwise::program {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

/// Clients in the order in which they are served, if all have arrived before.
std::vector<std::string> served(FairOrder& order, const std::vector<std::string>& arriving) {
  std::vector<std::pair<FairOrder::Turn, std::string>> waiting;
  for (const std::string& client : arriving) waiting.emplace_back(order.arrive(client), client);
  std::ranges::stable_sort(waiting, {}, &std::pair<FairOrder::Turn, std::string>::first);
  std::vector<std::string> names;
  for (const auto& [turn, client] : waiting) {
    order.serve(turn);
    names.push_back(client);
  }
  return names;
}

TEST(FairOrder, ServesEachClientOnceInARound) {
  FairOrder order;
  EXPECT_THAT(served(order, {"a", "a", "a", "b", "b", "c"}),
              ElementsAre("a", "b", "c", "a", "b", "a"));
}

TEST(FairOrder, NewClientsGoBeforeTheNextRoundOfOthers) {
  FairOrder order;
  const auto first = order.arrive("a"), second = order.arrive("a"), third = order.arrive("a");
  order.serve(first);
  order.serve(second);
  EXPECT_LT(order.arrive("b"), third);
  EXPECT_EQ(order.arrive("a"), third + 1);
}

TEST(FairOrder, ThoseWhoComeBackAtOnceDoNotStarveOthers) {
  FairOrder order;
  order.serve(order.arrive("a"));
  const auto waiting = order.arrive("b");
  for (int i = 0; i < 3; ++i) order.serve(order.arrive("a"));
  EXPECT_LT(waiting, order.arrive("a"));
}

TEST(Turns, AClientWithAllThatItMayHaveLeavesPlacesToOthers) {
  Turns turns({.places = 3, .of_each = 2, .patience = 20ms});
  const auto one = turns.take("a");
  auto two = turns.take("a");
  EXPECT_THROW(turns.take("a"), Busy);
  const auto three = turns.take("b");
  two.reset();
  EXPECT_NO_THROW(turns.take("a"));
}

TEST(Turns, OneAmongManyRequestsOfAnotherIsNext) {
  Turns turns({.places = 1, .of_each = 1, .patience = 60s});
  std::optional<Turns::Place> busy = turns.take("greedy");
  std::mutex mutex;
  std::vector<std::string> order;
  std::vector<std::future<void>> clients;
  const auto ask = [&](const std::string& client) {
    clients.push_back(std::async(std::launch::async, [&, client] {
      const auto place = turns.take(client);
      const std::lock_guard lock(mutex);
      order.push_back(client);
    }));
    std::this_thread::sleep_for(20ms);  // for it to wait
  };
  for (int i = 0; i < 5; ++i) ask("greedy");
  ask("modest");
  busy.reset();
  clients.clear();
  ASSERT_EQ(order.size(), 6u);
  EXPECT_EQ(std::ranges::count(order, "greedy"), 5);
  EXPECT_LE(std::ranges::find(order, "modest") - order.begin(), 1);
}

TEST(Turns, OneClientDoesNotFillTheLine) {
  Turns turns({.places = 1, .of_each = 1, .waiting_of_each = 1, .patience = 60s});
  Turns::Place place = turns.take("a");
  auto waiting = std::async(std::launch::async, [&] { turns.take("a"); });
  std::this_thread::sleep_for(20ms);
  EXPECT_THROW(turns.take("a"), Busy);
  auto other = std::async(std::launch::async, [&] { turns.take("b"); });
  std::this_thread::sleep_for(20ms);
  place.reset();
  EXPECT_NO_THROW(waiting.get());
  EXPECT_NO_THROW(other.get());
}

TEST(Turns, PlacesOutliveThemAndStoppingEndsWaiting) {
  std::optional<Turns> turns(Turns::Limits{.places = 1, .of_each = 1, .patience = 60s});
  Turns::Place place = turns->take("a");
  auto waiting = std::async(std::launch::async, [&] { EXPECT_THROW(turns->take("b"), Busy); });
  std::this_thread::sleep_for(10ms);
  turns->stop();
  waiting.get();
  turns.reset();
  place.reset();
}

}  // namespace
}  // namespace headwise::program
