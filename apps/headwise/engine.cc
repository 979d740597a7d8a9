// How the engine's thread chooses and does its work.
#include "engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <future>
#include <new>
#include <random>
#include <utility>

#include "interrupt.h"

namespace headwise::program {
namespace {

struct Cancelled {};

Busy too_slow() {
  return {.detail = {.what = "the answer took too long",
                     .hint = "try a shorter text, or again when less is going on"},
          .retry_after = 5};
}

}  // namespace

Busy Busy::stopping() {
  return {.detail = {.what = "the server is being stopped"}, .retry_after = 5};
}

struct Engine::Short {
  std::function<void()> work{};
  std::promise<void> done{};
  std::atomic<bool> given_up = false;  // nobody waits for it any more
};

struct Engine::Long {
  JobStatus status{};
  Job work{};
  std::string client{};
  FairOrder::Turn turn = 0;
  std::atomic<bool> cancelled = false;

  bool ended() const {
    return status.state != JobState::queued && status.state != JobState::running;
  }
};

std::string_view to_string(JobState state) {
  constexpr std::array<std::string_view, 5> names = {"queued", "running", "done", "failed",
                                                     "cancelled"};
  return names[static_cast<size_t>(state)];
}

std::string random_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

Engine::Engine(const Limits& limits) : limits_(limits), thread_([this] { loop(); }) {}

Engine::~Engine() {
  stop();
  thread_.join();
}

void Engine::stop() {
  const Lock lock(mutex_);
  stopping_ = true;
  for (const auto& work : short_) work->given_up = true;
  for (const auto& job : jobs_) job->cancelled = true;
  wake_.notify_all();
}

void Engine::run(const std::function<void()>& work) {
  const auto waiting = std::make_shared<Short>();
  waiting->work = work;
  {
    const Lock lock(mutex_);
    if (stopping_) throw Busy::stopping();
    if (short_.size() >= limits_.waiting) {
      throw Busy{.detail = {.what = "too many requests wait for the model",
                            .got = fmt::format("{} that wait", short_.size()),
                            .expected = fmt::format("fewer than {}", limits_.waiting),
                            .hint = "try again in a moment"}};
    }
    short_.push_back(waiting);
    wake_.notify_all();
  }
  std::future<void> done = waiting->done.get_future();
  if (done.wait_for(limits_.patience) != std::future_status::ready) {
    waiting->given_up = true;
    {
      const Lock lock(mutex_);
      if (std::erase(short_, waiting) > 0) throw too_slow();
    }
    done.wait();  // it is at work, and notices at the next layer
  }
  done.get();
}

std::string Engine::start(const std::string& kind, Job work, const std::string& client) {
  const Lock lock(mutex_);
  if (stopping_) throw Busy::stopping();
  size_t queued = 0, own = 0;
  for (const auto& job : jobs_) {
    if (job->status.state != JobState::queued) continue;
    ++queued;
    own += job->client == client;
  }
  if (queued >= limits_.jobs || own >= limits_.jobs_of_each) {
    const bool all = queued >= limits_.jobs;
    throw Busy{.detail = {.what = "too many jobs wait",
                          .got = fmt::format("{} that wait", all ? queued : own),
                          .expected = fmt::format("fewer than {}",
                                                  all ? limits_.jobs : limits_.jobs_of_each),
                          .hint = "wait for one to end, or cancel one"},
               .retry_after = 10};
  }
  const auto job = std::make_shared<Long>();
  job->status.id = random_id();
  job->status.kind = kind;
  job->work = std::move(work);
  job->client = client;
  job->turn = order_.arrive(client);
  jobs_.push_back(job);
  forget_old();
  wake_.notify_all();
  return job->status.id;
}

std::optional<Engine::JobStatus> Engine::find(const std::string& id) const {
  const Lock lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->status.id == id) return job->status;
  }
  return std::nullopt;
}

std::optional<Engine::JobStatus> Engine::cancel(const std::string& id) {
  const Lock lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->status.id != id) continue;
    job->cancelled = true;
    if (job->status.state == JobState::queued) job->status.state = JobState::cancelled;
    return job->status;
  }
  return std::nullopt;
}

Engine::Long* Engine::next_job() {
  Long* next = nullptr;
  for (const auto& job : jobs_) {
    if (job->status.state != JobState::queued) continue;
    if (next == nullptr || job->turn < next->turn) next = job.get();
  }
  return next;
}

void Engine::forget_old() {
  auto ended = static_cast<size_t>(
      std::ranges::count_if(jobs_, [](const auto& job) { return job->ended(); }));
  for (auto job = jobs_.begin(); job != jobs_.end() && ended > limits_.finished;) {
    if ((*job)->ended()) {
      job = jobs_.erase(job);
      --ended;
    } else {
      ++job;
    }
  }
}

void Engine::loop() {
  Lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || !short_.empty() || next_job() != nullptr; });
    if (!stopping_ && next_job() != nullptr) {
      do_job(lock);  // lets what is short in between its steps
    } else if (!short_.empty()) {
      do_short(lock);  // also when stopping: who waits is told
    } else if (stopping_) {
      for (const auto& job : jobs_) {
        if (!job->ended()) job->status.state = JobState::cancelled;
      }
      return;
    }
  }
}

void Engine::do_short(Lock& lock) {
  const std::shared_ptr<Short> next = std::move(short_.front());
  short_.pop_front();
  const bool stopping = stopping_;
  lock.unlock();
  try {
    const StopCheck check([&] {
      if (next->given_up) throw Cancelled();
    });
    throw_if_interrupted();
    next->work();
    next->done.set_value();
  } catch (const Interrupted&) {
    next->done.set_exception(std::make_exception_ptr(Busy::stopping()));
  } catch (const Cancelled&) {
    next->done.set_exception(std::make_exception_ptr(stopping ? Busy::stopping() : too_slow()));
  } catch (...) {
    next->done.set_exception(std::current_exception());
  }
  lock.lock();
}

void Engine::do_job(Lock& lock) {
  Long& job = *next_job();  // it is not forgotten before it ended
  job.status.state = JobState::running;
  order_.serve(job.turn);
  const Job work = std::move(job.work);
  const auto report = [&](std::string_view what, int64_t done, int64_t total) {
    Lock own(mutex_);
    job.status.what = what;
    job.status.done = done;
    job.status.total = total;
    // Those that wait by now, and no more, or the job would never end.
    for (size_t n = short_.size(); n > 0 && !short_.empty(); --n) do_short(own);
    own.unlock();
    throw_if_interrupted();
  };
  lock.unlock();
  JobState state = JobState::failed;
  Json result;
  std::optional<ErrorDetail> error;
  try {
    const StopCheck check([&] {
      if (job.cancelled) throw Cancelled();
    });
    result = work(report);
    state = JobState::done;
  } catch (const Cancelled&) {
    state = JobState::cancelled;
  } catch (const Interrupted&) {
    state = JobState::cancelled;
  } catch (const Error& failure) {
    error = failure.detail();
  } catch (const std::bad_alloc&) {
    error = {.what = "out of memory", .hint = "give it less at once"};
  } catch (const std::exception& failure) {
    error = {.what = failure.what()};
  }
  lock.lock();
  job.status.state = state;
  job.status.result = std::move(result);
  job.status.error = std::move(error);
  forget_old();
}

}  // namespace headwise::program
