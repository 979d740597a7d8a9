// How far apart two cores of this machine are right now: virtual ones move between places that
// share a cache and places that do not.
#pragma once

namespace headwise::bench {

/// Nanoseconds that a line of memory takes from one thread to another, infinity if they share a
/// core; found in about a tenth of a millisecond.
double core_distance();

}  // namespace headwise::bench
