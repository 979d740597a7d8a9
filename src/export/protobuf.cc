// The wire format: a tag (number and kind of a field), then its value.
#include "export/protobuf.h"

#include <fmt/format.h>

#include <bit>

#include "headwise/core/error.h"

namespace headwise::protobuf {

void Message::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

void Message::tag(int field, Wire wire) { varint(static_cast<uint64_t>(field) << 3 | wire); }

Message& Message::number(int field, int64_t value) {
  tag(field, kVarint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

Message& Message::real(int field, float value) {
  tag(field, kFixed32);
  const auto bits = std::bit_cast<uint32_t>(value);
  for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
  return *this;
}

Message& Message::head(int field, int64_t size) {
  tag(field, kLength);
  varint(static_cast<uint64_t>(size));
  return *this;
}

Message& Message::text(int field, std::string_view value) {
  head(field, static_cast<int64_t>(value.size()));
  bytes_ += value;
  return *this;
}

Message& Message::append(const Message& other) {
  bytes_ += other.bytes_;
  return *this;
}

std::span<const std::byte> Fields::take(uint64_t size) {
  if (size > left_.size()) {
    throw Error({.what = "a message ends within a field",
                 .got = fmt::format("{} bytes", left_.size()),
                 .expected = fmt::format("{}", size)});
  }
  const std::span<const std::byte> taken = left_.first(size);
  left_ = left_.subspan(size);
  return taken;
}

uint64_t Fields::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<uint64_t>(take(1)[0]);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::optional<Field> Fields::next() {
  if (left_.empty()) return {};
  const uint64_t tag = varint();
  Field field{.number = static_cast<int>(tag >> 3)};
  switch (tag & 7) {
    case 0:
      field.value = static_cast<int64_t>(varint());
      break;
    case 1:
      field.bytes = take(8);
      break;
    case 2:
      field.bytes = take(varint());
      break;
    case 5:
      field.bytes = take(4);
      break;
    default:
      throw Error(
          {.what = "a message has a field of an unknown kind", .got = fmt::format("{}", tag & 7)});
  }
  return field;
}

}  // namespace headwise::protobuf
