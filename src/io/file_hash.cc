// A hash of 8 bytes at a time, by multiplication (as in wyhash), and SHA-256.
#include "io/file_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "io/file.h"
#include "io/sha256.h"

namespace headwise {
namespace {

constexpr int64_t kStep = int64_t{1} << 20;  // bytes read at once, whole words

uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

std::string file_identity(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::byte> bytes(kStep);
  uint64_t hash = 0x9E3779B97F4A7C15u ^ static_cast<uint64_t>(file.size());
  for (int64_t from = 0; from < file.size(); from += kStep) {
    bytes.resize(std::min(kStep, file.size() - from));
    file.read(from, bytes);
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
      hash = mix(hash ^ word, 0xA0761D6478BD642Fu) + 0xE7037ED1A0B428DBu;
    }
  }
  return fmt::format("{} bytes, {:016x}", file.size(), mix(hash, 0x8EBC6AF09C88C6E3u));
}

std::string sha256_of_files(std::span<const std::filesystem::path> files,
                            const std::function<void()>& check) {
  Sha256 sha;
  std::vector<std::byte> part;
  for (const std::filesystem::path& path : files) {
    const InputFile file(path);
    for (int64_t at = 0; at < file.size(); at += std::ssize(part)) {
      part.resize(std::min(kStep, file.size() - at));
      file.read(at, part);
      sha.add(part);
      if (check) check();
    }
  }
  return sha.finish();
}

}  // namespace headwise
