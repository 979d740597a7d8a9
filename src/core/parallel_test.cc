// Parallel loops: every item once, with any number of threads, callers and processes.
#include "headwise/core/parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/thread_pool.h"
#include "headwise/core/error.h"

namespace headwise {
namespace {

/// Longer than anything takes. Where a loop hangs, a test fails instead of waiting for it.
constexpr auto kPatience = std::chrono::seconds(20);

bool becomes_true(const auto& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class Parallel : public testing::Test {
 protected:
  ~Parallel() override { set_threads(threads_); }

 private:
  int threads_ = threads();
};

TEST_F(Parallel, VisitsEveryItemOnceAndCutsPanelsTheSameWay) {
  for (const int count : {1, 2, 3, 7, 2, 16, 1, 3}) {
    set_threads(count);
    std::vector<int> visits(1000);
    parallel_for(1000, [&](int64_t i) { ++visits[i]; });
    EXPECT_THAT(visits, testing::Each(1));
    parallel_for(2, [&](int64_t i) { ++visits[i]; });
    EXPECT_EQ(visits[0] + visits[1], 4);
    parallel_for(0, [&](int64_t) { ADD_FAILURE(); });
    std::vector<int64_t> ends(4);
    parallel_panels(100, 32, [&](int64_t begin, int64_t end) { ends[begin / 32] = end; });
    EXPECT_THAT(ends, testing::ElementsAre(32, 64, 96, 100));
  }
  EXPECT_THROW(set_threads(0), Error);
  EXPECT_THROW(set_threads(1025), Error);
}

TEST_F(Parallel, UsesAllCoresUnlessTold) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_EQ(threads(), available_cores());
}

/// Two threads hold an item each until the other has one, too.
TEST_F(Parallel, ItemsRunAtTheSameTime) {
  set_threads(2);
  std::atomic<int> inside{0};
  parallel_for(2, [&](int64_t) {
    ++inside;
    EXPECT_TRUE(becomes_true([&] { return inside == 2; }));
  });
}

TEST_F(Parallel, ThreadsTakeNeighboursFromTheFrontOfTheirShare) {
  set_threads(2);
  std::vector<int64_t> order[2];  // of the caller, and of the other thread
  std::atomic<int> inside{0};
  const std::thread::id caller = std::this_thread::get_id();
  parallel_for(100, [&](int64_t item) {
    order[std::this_thread::get_id() == caller ? 0 : 1].push_back(item);
    if (item == 0 || item == 50) {  // the first of each share
      ++inside;
      EXPECT_TRUE(becomes_true([&] { return inside == 2; }));
    }
  });
  EXPECT_EQ(order[0].front(), 0);
  EXPECT_EQ(order[1].front(), 50);
  EXPECT_EQ(order[0].size() + order[1].size(), 100u);
}

/// The thread that holds item 0 does nothing else: others take its share, from the back.
TEST_F(Parallel, IdleThreadsStealFromTheBack) {
  set_threads(2);
  std::atomic<int> done{0};
  std::vector<int64_t> stolen;
  parallel_for(8, [&](int64_t item) {
    if (item == 0) {
      EXPECT_TRUE(becomes_true([&] { return done == 7; }));
    } else {
      if (item < 4) stolen.push_back(item);
      ++done;
    }
  });
  EXPECT_THAT(stolen, testing::ElementsAre(3, 2, 1));
}

TEST_F(Parallel, PassesTheFirstExceptionOnAndStartsNothingAfterIt) {
  for (const int count : {1, 2, 4}) {
    set_threads(count);
    std::atomic<int> calls{0};
    const auto fails = [&](int64_t bad) {
      return [&, bad](int64_t item) {
        ++calls;
        if (item == bad) throw Error({.what = "item"});
        std::this_thread::sleep_for(std::chrono::microseconds(10));
      };
    };
    for (const int64_t bad : {int64_t{0}, int64_t{500}, int64_t{999}}) {
      EXPECT_THROW(parallel_for(1000, fails(bad)), Error);
    }
    calls = 0;
    EXPECT_THROW(parallel_for(1000, fails(0)), Error);
    EXPECT_LT(calls, 1000);
    EXPECT_THROW(parallel_for(1000, [](int64_t) { throw Error({.what = "each"}); }), Error);
    // The threads still work.
    std::atomic<int64_t> sum{0};
    parallel_for(100, [&](int64_t item) { sum += item; });
    EXPECT_EQ(sum, 4950);
  }
}

TEST_F(Parallel, LoopsInsideLoopsRunOnTheirThread) {
  set_threads(4);
  std::vector<int> visits(40 * 30);
  parallel_for(40, [&](int64_t i) {
    const std::thread::id own = std::this_thread::get_id();
    parallel_for(30, [&](int64_t j) {
      EXPECT_EQ(std::this_thread::get_id(), own);
      ++visits[i * 30 + j];
    });
  });
  EXPECT_THAT(visits, testing::Each(1));
}

TEST_F(Parallel, ALoopBesideAnotherRunsOnItsCaller) {
  set_threads(2);
  std::atomic<bool> begun{false}, done{false};
  std::thread other([&] {
    parallel_for(2, [&](int64_t) {
      begun = true;
      EXPECT_TRUE(becomes_true([&] { return done.load(); }));
    });
  });
  EXPECT_TRUE(becomes_true([&] { return begun.load(); }));
  std::set<std::thread::id> by;
  parallel_for(1000, [&](int64_t) { by.insert(std::this_thread::get_id()); });
  EXPECT_THAT(by, testing::ElementsAre(std::this_thread::get_id()));
  done = true;
  other.join();
}

TEST_F(Parallel, ManyCallersWithManyTinyLoops) {
  set_threads(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int loop = 0; loop < 2000; ++loop) {
        int64_t own[5] = {};
        parallel_for(5, [&](int64_t item) { own[item] += item + 1; });
        sum += std::accumulate(own, own + 5, int64_t{0});
      }
    });
  }
  for (int round = 0; round < 100; ++round) set_threads(2 + round % 5);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 2000 * 15);
}

/// Loops with pauses between them, in which threads fall asleep.
TEST_F(Parallel, SleepersWakeUp) {
  set_threads(2);
  for (int loop = 0; loop < 50; ++loop) {
    std::this_thread::sleep_for(std::chrono::microseconds(loop * 10));
    std::atomic<int> inside{0};
    parallel_for(2, [&](int64_t) {
      ++inside;
      EXPECT_TRUE(becomes_true([&] { return inside == 2; }));
    });
  }
}

/// What `child` returns in a process of its own; -1 if it hangs or crashes.
int in_a_child(const auto& child) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(60);
    _exit(child());
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// 0 if two threads work on a loop together.
int runs_on_two_threads() {
  std::atomic<int> inside{0};
  std::atomic<bool> together{true};
  parallel_for(2, [&](int64_t) {
    ++inside;
    if (!becomes_true([&] { return inside == 2; })) together = false;
  });
  return together ? 0 : 1;
}

TEST_F(Parallel, ChildrenHaveThreadsOfTheirOwn) {
  set_threads(2);
  EXPECT_EQ(runs_on_two_threads(), 0);
  EXPECT_EQ(in_a_child([] { return runs_on_two_threads() + in_a_child(runs_on_two_threads); }), 0);
  EXPECT_EQ(runs_on_two_threads(), 0);
}

TEST_F(Parallel, AForkWaitsForTheLoopOfAnotherThread) {
  set_threads(2);
  std::atomic<bool> stop{false};
  std::atomic<int> loops{0};
  std::thread other([&] {
    while (!stop) {
      parallel_for(20, [](int64_t) {});
      ++loops;
    }
  });
  for (int round = 0; round < 20; ++round) {
    const int before = loops;
    EXPECT_TRUE(becomes_true([&] { return loops > before; }));
    EXPECT_EQ(in_a_child(runs_on_two_threads), 0);
  }
  stop = true;
  other.join();
}

/// A child of an item computes on its one thread, and the parent's loop goes on.
TEST_F(Parallel, AForkInsideALoopDoesNotHang) {
  set_threads(2);
  std::atomic<int> children{0};
  parallel_for(4, [&](int64_t) {
    children += in_a_child([] {
      int sum = 0;
      parallel_for(10, [&](int64_t item) { sum += static_cast<int>(item); });
      return sum;
    });
  });
  EXPECT_EQ(children, 4 * 45);
}

/// exit() with threads awake, asleep and at work.
TEST_F(Parallel, TheProcessEndsWhileThreadsAreThere) {
  for (const bool at_work : {false, true}) {
    const int code = in_a_child([&]() -> int {
      set_threads(4);
      std::atomic<int> inside{0};
      std::thread([&] {
        parallel_for(4, [&](int64_t) {
          ++inside;
          while (at_work) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
      }).detach();
      while (inside < (at_work ? 2 : 4)) std::this_thread::yield();
      std::exit(7);
    });
    EXPECT_EQ(code, 7);
  }
}

}  // namespace
}  // namespace headwise
