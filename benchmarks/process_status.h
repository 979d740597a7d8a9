// What the kernel says about this process.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "headwise/core/error.h"

namespace headwise::bench {

/// A line of /proc/self/status, in KiB.
inline int64_t status_kib(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoll(line.substr(field.size() + 1));
  }
  throw Error(
      {.what = "memory: the field is not in /proc/self/status", .where = std::string(field)});
}

}  // namespace headwise::bench
