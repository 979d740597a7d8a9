// A text under change, every byte of which knows the bytes of the source it comes from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headwise::text {

struct Align {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// One character of a text to be, and how it relates to the characters there are: 0 takes the place
/// of the next one, 1 is new, -n takes the place of the next one and removes n after it.
struct Change {
  char32_t c = 0;
  int32_t change = 0;
};

/// A text may become 32 times as long as its source, and at least 64 KiB; a step that would put
/// more throws Error. No script needs that much, but a file may ask for any amount.
class AlignedText {
 public:
  /// `text` as it lies in the source from `base` on.
  void reset(std::string_view text, uint32_t base);

  /// The same for the whole of a source that may hold any bytes: those that are no UTF-8 become
  /// U+FFFD.
  void reset_repaired(std::string_view source);

  /// Nothing, for parts of a source of so many bytes to be appended.
  void reset_empty(size_t source);

  const std::string& text() const { return text_; }
  size_t source_size() const { return source_; }

  /// The range of the source that [begin, end), not empty, of text() comes from.
  Align source(size_t begin, size_t end) const;

  /// Where the byte comes from; for the source itself, its character.
  Align align(size_t byte) const;

  /// Becomes the characters [begin, end) of another text.
  void assign(const AlignedText& other, size_t begin, size_t end);

  /// Adds another text's characters [begin, end) at the end.
  void append(const AlignedText& other, size_t begin, size_t end);

  // Rewriting: begin_rewrite(), then put() the new text in order, then end_rewrite(). In between,
  // text() and align() are those of the old one.
  void begin_rewrite();
  void put(char32_t c, Align align);
  void put(std::string_view bytes, Align align);
  void keep(size_t begin, size_t end);  // old bytes with their alignment
  size_t rewritten() const { return new_text_.size(); }
  void end_rewrite();

  /// Throws Error if it may not become so many bytes long.
  void need_room(size_t bytes) const;

  /// Replaces the text by these characters.
  void transform(const std::vector<Change>& changes);

  /// Overwrites a byte that keeps its place, e.g. by its lower case.
  void overwrite(size_t at, char byte) { text_[at] = byte; }

  void remove_suffix(size_t bytes);

 private:
  void set_source(size_t bytes);

  std::string text_;
  std::vector<Align> aligns_;  // one per byte, unless identical_
  std::string new_text_;
  std::vector<Align> new_aligns_;
  uint32_t base_ = 0;
  size_t source_ = 0;  // bytes
  size_t most_ = 0;    // bytes that it may grow to
  bool identical_ = true;
};

}  // namespace headwise::text
