// Messages of protocol buffers, as far as ONNX needs them: numbers, floats, texts and messages, in
// the order of the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace headwise::protobuf {

/// A message that grows field by field.
class Message {
 public:
  Message& number(int field, int64_t value);
  Message& real(int field, float value);
  Message& text(int field, std::string_view value);
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }

  /// The head of a field whose `size` bytes follow: in this message, or in the file behind it.
  Message& head(int field, int64_t size);

  /// The fields of another message, behind those of this one.
  Message& append(const Message& other);

  std::string_view bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  enum Wire : uint64_t { kVarint = 0, kLength = 2, kFixed32 = 5 };
  void varint(uint64_t value);
  void tag(int field, Wire wire);

  std::string bytes_;
};

/// One field of a message.
struct Field {
  int number = 0;
  int64_t value = 0;                   // of numbers
  std::span<const std::byte> bytes{};  // of texts and messages

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// Reads a message field by field. Throws Error if it ends within one.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : left_(bytes) {}
  explicit Fields(const Field& message) : left_(message.bytes) {}

  std::optional<Field> next();

 private:
  uint64_t varint();
  std::span<const std::byte> take(uint64_t size);

  std::span<const std::byte> left_;
};

}  // namespace headwise::protobuf
