// A hash of 8 bytes at a time, by multiplication (as in wyhash).
#include "io/file_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "io/file.h"

namespace headwise {
namespace {

uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

std::string file_identity(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  uint64_t hash = 0x9E3779B97F4A7C15u ^ bytes.size();
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    hash = mix(hash ^ word, 0xA0761D6478BD642Fu) + 0xE7037ED1A0B428DBu;
  }
  return fmt::format("{} bytes, {:016x}", bytes.size(), mix(hash, 0x8EBC6AF09C88C6E3u));
}

}  // namespace headwise
