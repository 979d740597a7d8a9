// Cuts what is added into blocks.
#include "io/sha256.h"

#include <fmt/format.h>

#include <algorithm>

namespace headwise {

void Sha256::add(std::span<const std::byte> bytes) {
  const size_t held = size_ % kSha256BlockBytes;
  size_ += bytes.size();
  if (held > 0) {
    const size_t more = std::min(kSha256BlockBytes - held, bytes.size());
    std::copy_n(bytes.begin(), more, rest_.begin() + held);
    bytes = bytes.subspan(more);
    if (held + more < kSha256BlockBytes) return;
    kernel_.compress(state_, rest_.data(), 1);
  }
  const size_t blocks = bytes.size() / kSha256BlockBytes;
  kernel_.compress(state_, bytes.data(), blocks);
  std::ranges::copy(bytes.subspan(blocks * kSha256BlockBytes), rest_.begin());
}

std::string Sha256::finish() {
  const uint64_t bits = size_ * 8;
  const std::byte one{0x80}, zero{0};
  add(std::span(&one, 1));
  while (size_ % kSha256BlockBytes != kSha256BlockBytes - 8) add(std::span(&zero, 1));
  std::array<std::byte, 8> length;
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(length);
  std::string text;
  for (const uint32_t word : state_) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace headwise
