// The pool. A thread gets neighbouring items, and when it is done, items that others have left.
//
// Nothing waits for a thread that has not begun to work: the caller takes back what it posted.
// So a loop is never slower than on one thread because the machine is busy, and it completes even
// where threads could not be started.
#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace headwise {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread stays awake for the next loop. Loops of a model follow each other within some
/// microseconds, and waking a thread takes longer.
constexpr auto kAwake = std::chrono::microseconds(20);

/// Set on threads of the pool, and on a caller during its loop.
thread_local bool in_loop = false;

/// What is left of one thread's items. They are neighbours, so that a thread meets the same part of
/// the data, which its caches may still hold, in loop after loop. The owner takes from the front;
/// the others take from the back.
class Share {
 public:
  void hold(int64_t begin, int64_t end) { left_ = pack(begin, end); }

  std::optional<int64_t> take(bool from_front) {
    uint64_t seen = left_.load(std::memory_order_relaxed);
    while (true) {
      const auto begin = static_cast<int64_t>(seen >> 32), end = static_cast<int64_t>(seen & kLow);
      if (begin == end) return std::nullopt;
      const uint64_t rest = from_front ? pack(begin + 1, end) : pack(begin, end - 1);
      if (left_.compare_exchange_weak(seen, rest, std::memory_order_relaxed)) {
        return from_front ? begin : end - 1;
      }
    }
  }

 private:
  static constexpr uint64_t kLow = 0xffffffff;
  static uint64_t pack(int64_t begin, int64_t end) {
    return static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end);
  }
  std::atomic<uint64_t> left_{0};
};

enum class State : int32_t {
  idle,
  posted,  // by the caller: there is a loop
  taken,   // by the thread: it works on the loop
};

/// The caller's, or that of a thread of the pool.
struct alignas(64) Member {
  Share share;
  std::atomic<State> state{State::idle};
};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns when the state is another one. Stays awake for some microseconds, and then sleeps.
void wait_while(const std::atomic<State>& state, State old) {
  const auto until = Clock::now() + kAwake;
  do {
    for (int i = 0; i < 32; ++i) {
      if (state.load(std::memory_order_acquire) != old) return;
      relax();
    }
  } while (Clock::now() < until);
  state.wait(old);
}

struct Loop {
  const std::function<void(int64_t)>& work;
  int count;  // of members
  std::atomic<bool> failed{false};
  std::exception_ptr failure{};
};

class ThreadPool {
 public:
  /// Never destroyed: threads may still look at it when the process ends.
  static ThreadPool& instance() {
    static ThreadPool& pool = *new ThreadPool();
    return pool;
  }

  bool run(int64_t items, int count, const std::function<void(int64_t)>& work) {
    const std::unique_lock lock(busy_, std::try_to_lock);
    if (!lock) return false;
    Loop loop{.work = work, .count = start(count)};
    loop_ = &loop;
    for (int i = 0; i < loop.count; ++i) {
      members_[i]->share.hold(items * i / loop.count, items * (i + 1) / loop.count);
    }
    for (int i = 1; i < loop.count; ++i) {
      members_[i]->state = State::posted;
      members_[i]->state.notify_one();
    }
    in_loop = true;
    work_through(0);
    for (int i = 1; i < loop.count; ++i) {
      std::atomic<State>& state = members_[i]->state;
      State posted = State::posted;
      if (state.compare_exchange_strong(posted, State::idle)) continue;
      while (state == State::taken) wait_while(state, State::taken);
    }
    in_loop = false;
    if (loop.failure) std::rethrow_exception(loop.failure);
    return true;
  }

 private:
  ThreadPool() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

  /// Starts threads until there are `count` members. Returns how many there are, at most `count`.
  int start(int count) {
    if (threads_are_gone_) members_.clear();
    threads_are_gone_ = false;
    if (members_.empty()) members_.push_back(std::make_unique<Member>());
    while (std::ssize(members_) < count) {
      const size_t before = members_.size();
      try {
        members_.push_back(std::make_unique<Member>());
        std::thread([this, own = static_cast<int>(members_.size()) - 1,
                     state = &members_.back()->state] {
          serve(own, *state);
        }).detach();
      } catch (...) {  // the system has no more of them, or no memory
        members_.resize(before);
        return static_cast<int>(before);
      }
    }
    return count;
  }

  /// What a thread of the pool does.
  [[noreturn]] void serve(int own, std::atomic<State>& state) {
    in_loop = true;
    for (;;) {
      wait_while(state, State::idle);
      State posted = State::posted;
      if (!state.compare_exchange_strong(posted, State::taken)) continue;
      work_through(own);
      state = State::idle;
      state.notify_one();
    }
  }

  void work_through(int own) {
    Loop& loop = *loop_;
    for (int i = 0; i < loop.count; ++i) {
      Share& share = members_[(own + i) % loop.count]->share;
      while (!loop.failed) {
        const std::optional<int64_t> item = share.take(i == 0);
        if (!item) break;
        try {
          loop.work(*item);
        } catch (...) {
          if (!loop.failed.exchange(true)) loop.failure = std::current_exception();
        }
      }
    }
  }

  /// A fork waits for the loop that runs, unless it is inside of it.
  static void before_fork() {
    if (!in_loop) instance().busy_.lock();
  }
  static void after_fork_in_parent() {
    if (!in_loop) instance().busy_.unlock();
  }
  static void after_fork_in_child() {
    ThreadPool& pool = instance();
    for (const auto& member : pool.members_) member->state = State::idle;
    pool.threads_are_gone_ = true;
    if (!in_loop) pool.busy_.unlock();
  }

  std::mutex busy_;  // held by the caller whose loop runs; guards all below
  std::vector<std::unique_ptr<Member>> members_;  // [0] is the caller's
  Loop* loop_ = nullptr;
  bool threads_are_gone_ = false;  // this is a child process
};

}  // namespace

bool run_on_threads(int64_t items, int count, const std::function<void(int64_t)>& work) {
  return !in_loop && ThreadPool::instance().run(items, count, work);
}

int available_cores() {
  static const int cores = [] {
    cpu_set_t set;
    const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
    return std::max(1,
                    allowed > 0 ? allowed : static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return cores;
}

}  // namespace headwise
