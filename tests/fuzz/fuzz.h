// What fuzz targets share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "headwise/core/error.h"

namespace headwise::fuzz {

/// A finding: something that must hold does not.
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

inline std::string_view text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Whether the call succeeds. An Error is a proper answer; anything else thrown is a finding.
template <class Call>
bool succeeds(const Call& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    must(!error.detail().what.empty() && !error.detail().where.empty(), "an Error without a place");
    must(std::string_view(error.what()).size() < 10000, "an Error nobody reads");
    return false;
  }
}

}  // namespace headwise::fuzz
