// The engine's thread: order, room, time, cancelling, stopping.
#include "engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "interrupt.h"

namespace headwise::program {
namespace {

using namespace std::chrono_literals;
using Json = Engine::Json;

/// A work that the engine is held up by.
class Obstacle {
 public:
  explicit Obstacle(Engine& engine)
      : running_(std::async(std::launch::async, [&engine, this] {
          engine.run([this] {
            begun_.count_down();
            go_on_.wait();
          });
        })) {
    begun_.wait();
  }
  void remove() {
    go_on_.count_down();
    running_.get();
  }

 private:
  std::latch begun_{1}, go_on_{1};
  std::future<void> running_;
};

Engine::JobStatus ended(const Engine& engine, const std::string& id) {
  while (true) {
    const auto job = engine.find(id);
    if (job->state != JobState::queued && job->state != JobState::running) return *job;
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Engine, DoesWorkOnItsOwnThreadAndPassesOnWhatItThrows) {
  Engine engine({});
  std::thread::id there;
  engine.run([&] { there = std::this_thread::get_id(); });
  EXPECT_NE(there, std::this_thread::get_id());
  EXPECT_THROW(engine.run([] { throw Error({.what = "bad"}); }), Error);
  EXPECT_NO_THROW(engine.run([] {}));
}

TEST(Engine, RefusesMoreThanMayWait) {
  Engine engine({.waiting = 2});
  Obstacle obstacle(engine);
  std::atomic<int> done = 0, refused = 0;
  std::vector<std::future<void>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::async(std::launch::async, [&] {
      try {
        engine.run([&] { ++done; });
      } catch (const Busy& busy) {
        EXPECT_GT(busy.retry_after, 0);
        ++refused;
      }
    }));
  }
  while (refused < 8) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(done, 0);
  obstacle.remove();
  clients.clear();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(refused, 8);
}

TEST(Engine, GivesUpWhatTakesTooLong) {
  Engine engine({.patience = 20ms});
  EXPECT_THROW(engine.run([] {
    while (true) throw_if_interrupted();  // as every layer of a model does
  }),
               Busy);
  std::latch begun(1), go_on(1);
  const std::string id = engine.start("kind", [&](const Engine::Report&) {
    begun.count_down();
    go_on.wait();
    return Json();
  });
  begun.wait();
  bool ran = false;
  EXPECT_THROW(engine.run([&] { ran = true; }), Busy);
  go_on.count_down();
  ended(engine, id);
  EXPECT_FALSE(ran);
}

TEST(Engine, JobsReportAndLetOthersIn) {
  Engine engine({});
  std::promise<void> asked;
  auto asks = asked.get_future().share();
  bool between = false;
  const std::string id = engine.start("kind", [&](const Engine::Report& report) {
    report("first", 1, 2);
    asks.wait();
    do report("second", 2, 2);
    while (!between);
    return Json{{"answer", 42}};
  });
  auto other = std::async(std::launch::async, [&] {
    asked.set_value();
    engine.run([&] { between = true; });
  });
  const Engine::JobStatus job = ended(engine, id);
  EXPECT_EQ(job.state, JobState::done);
  EXPECT_EQ(job.kind, "kind");
  EXPECT_EQ(job.what, "second");
  EXPECT_EQ(job.total, 2);
  EXPECT_EQ(job.result["answer"], 42);
  other.get();
}

TEST(Engine, JobsAreNotPutOffByThoseWhoKeepAsking) {
  Engine engine({});
  Obstacle obstacle(engine);
  const std::string id = engine.start("kind", [](const Engine::Report&) { return Json(); });
  JobState seen = JobState::queued;
  auto other =
      std::async(std::launch::async, [&] { engine.run([&] { seen = engine.find(id)->state; }); });
  std::this_thread::sleep_for(10ms);  // for it to wait, too
  obstacle.remove();
  other.get();
  EXPECT_EQ(seen, JobState::done);
}

TEST(Engine, JobsFailWithAReason) {
  Engine engine({});
  const auto error_of = [&](const Engine::Job& job) {
    const Engine::JobStatus status = ended(engine, engine.start("kind", job));
    EXPECT_EQ(status.state, JobState::failed);
    return status.error.value().what;
  };
  EXPECT_EQ(error_of([](const auto&) -> Json { throw Error({.what = "bad"}); }), "bad");
  EXPECT_EQ(error_of([](const auto&) -> Json { throw std::runtime_error("worse"); }), "worse");
  EXPECT_EQ(error_of([](const auto&) -> Json { throw std::bad_alloc(); }), "out of memory");
}

TEST(Engine, CancelsWhatRunsAndWhatWaits) {
  Engine engine({.jobs = 1});
  const Engine::Job endless = [](const Engine::Report& report) -> Json {
    while (true) report("going on", 0, 1);
  };
  const std::string running = engine.start("a", endless);
  while (engine.find(running)->state != JobState::running) std::this_thread::sleep_for(1ms);
  const std::string waiting = engine.start("b", endless);
  EXPECT_THROW(engine.start("c", endless), Busy);
  EXPECT_EQ(engine.cancel(waiting)->state, JobState::cancelled);
  EXPECT_NO_THROW(engine.start("d", endless));  // there is room again
  engine.cancel(running);
  EXPECT_EQ(ended(engine, running).state, JobState::cancelled);
  EXPECT_FALSE(engine.cancel("nobody"));
  EXPECT_FALSE(engine.find("nobody"));
}

TEST(Engine, ClientsTakeTurnsWithTheirJobs) {
  Engine engine({.jobs_of_each = 2});
  Obstacle obstacle(engine);
  std::vector<std::string> order;
  const auto job_of = [&](const std::string& client) {
    return engine.start(
        "kind",
        [&order, client](const Engine::Report&) {
          order.push_back(client);
          return Json();
        },
        client);
  };
  job_of("a");
  const std::string last = job_of("a");
  EXPECT_THROW(job_of("a"), Busy);
  job_of("b");
  obstacle.remove();
  ended(engine, last);
  EXPECT_THAT(order, testing::ElementsAre("a", "b", "a"));
}

TEST(Engine, ForgetsOldJobs) {
  Engine engine({.finished = 2});
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) {
    ids.push_back(engine.start("kind", [](const auto&) { return Json(); }));
    ended(engine, ids.back());
  }
  EXPECT_FALSE(engine.find(ids[0]));
  EXPECT_FALSE(engine.find(ids[1]));
  EXPECT_TRUE(engine.find(ids[3]));
}

TEST(Engine, StopsInTheMidst) {
  Engine engine({});
  const std::string id = engine.start("kind", [](const Engine::Report& report) -> Json {
    while (true) report("going on", 0, 1);
  });
  engine.stop();
  EXPECT_EQ(ended(engine, id).state, JobState::cancelled);
  EXPECT_THROW(engine.run([] {}), Busy);
  EXPECT_THROW(engine.start("kind", {}), Busy);
}

}  // namespace
}  // namespace headwise::program
