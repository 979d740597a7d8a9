// The threads that parallel loops run on, started when they are first needed.
#pragma once

#include <cstdint>
#include <functional>

namespace headwise {

/// The most items of one loop.
inline constexpr int64_t kMostItems = int64_t{1} << 31;

/// Calls work(item) for every item in [0, items) on the calling thread and on up to `count - 1`
/// others, and returns true when all calls have returned. Rethrows the first exception; after it,
/// no further items are started. Returns false, and calls nothing, inside another loop and while
/// another thread runs one.
///
/// A child process gets threads of its own with its first loop. One that was forked inside a loop
/// must not return from its item: other items are computed in the parent only.
bool run_on_threads(int64_t items, int count, const std::function<void(int64_t)>& work);

/// How many cores this process may use.
int available_cores();

}  // namespace headwise
