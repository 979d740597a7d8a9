// A text under change: alignment as the `tokenizers` package keeps it, byte for byte.
#include "text/aligned_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "headwise/core/error.h"
#include "text/unicode.h"

namespace headwise::text {

void AlignedText::set_source(size_t bytes) {
  constexpr size_t kGrowth = 32, kLeast = size_t{1} << 16;
  constexpr size_t kMost = size_t{1} << 31;  // so that places fit 32 bits
  source_ = bytes;
  most_ = std::clamp(bytes * kGrowth, kLeast, kMost);
}

void AlignedText::need_room(size_t bytes) const {
  if (bytes <= most_) return;
  throw Error({.what = "tokenizer: normalizing makes the text too long",
               .where = "normalizer",
               .got = fmt::format("more than {} bytes of {}", most_, source_),
               .expected = "at most 32 times as many, and never more than 2^31"});
}

void AlignedText::reset(std::string_view text, uint32_t base) {
  set_source(text.size());
  text_.assign(text);
  aligns_.clear();
  base_ = base;
  identical_ = true;
}

void AlignedText::reset_repaired(std::string_view source) {
  set_source(source.size());
  begin_rewrite();
  for (size_t at = 0; at < source.size();) {
    const size_t valid = valid_char_size(source, at);
    const size_t size = std::max<size_t>(valid, 1);
    const Align align{static_cast<uint32_t>(at), static_cast<uint32_t>(at + size)};
    if (valid > 0) {
      put(source.substr(at, size), align);
    } else {
      put(char32_t{0xFFFD}, align);
    }
    at += size;
  }
  end_rewrite();
}

void AlignedText::reset_empty(size_t source) {
  set_source(source);
  text_.clear();
  aligns_.clear();
  base_ = 0;
  identical_ = false;
}

Align AlignedText::align(size_t byte) const {
  if (!identical_) return aligns_[byte];
  size_t begin = byte;
  while (begin > 0 && is_continuation(text_[begin])) --begin;
  size_t end = byte + 1;
  while (end < text_.size() && is_continuation(text_[end])) ++end;
  return {base_ + static_cast<uint32_t>(begin), base_ + static_cast<uint32_t>(end)};
}

Align AlignedText::source(size_t begin, size_t end) const {
  return {align(begin).begin, align(end - 1).end};
}

void AlignedText::assign(const AlignedText& other, size_t begin, size_t end) {
  reset(std::string_view(other.text_).substr(begin, end - begin),
        other.base_ + static_cast<uint32_t>(begin));
  identical_ = other.identical_;
  if (identical_) return;
  aligns_.assign(other.aligns_.begin() + static_cast<ptrdiff_t>(begin),
                 other.aligns_.begin() + static_cast<ptrdiff_t>(end));
}

void AlignedText::append(const AlignedText& other, size_t begin, size_t end) {
  need_room(text_.size() + end - begin);
  text_.append(other.text_, begin, end - begin);
  identical_ = false;
  if (other.identical_) {
    for (size_t at = begin; at < end;) {
      const size_t size = char_size(other.text_[at]);
      const uint32_t from = other.base_ + static_cast<uint32_t>(at);
      aligns_.insert(aligns_.end(), size, Align{from, from + static_cast<uint32_t>(size)});
      at += size;
    }
  } else {
    aligns_.insert(aligns_.end(), other.aligns_.begin() + static_cast<ptrdiff_t>(begin),
                   other.aligns_.begin() + static_cast<ptrdiff_t>(end));
  }
}

void AlignedText::begin_rewrite() {
  new_text_.clear();
  new_aligns_.clear();
  new_text_.reserve(text_.size());
  new_aligns_.reserve(text_.size());
}

void AlignedText::put(char32_t c, Align align) {
  need_room(new_text_.size() + 4);
  append_char(new_text_, c);
  new_aligns_.resize(new_text_.size(), align);
}

void AlignedText::put(std::string_view bytes, Align align) {
  need_room(new_text_.size() + bytes.size());
  new_text_.append(bytes);
  new_aligns_.resize(new_text_.size(), align);
}

void AlignedText::keep(size_t begin, size_t end) {
  need_room(new_text_.size() + end - begin);
  new_text_.append(text_, begin, end - begin);
  if (!identical_) {
    new_aligns_.insert(new_aligns_.end(), aligns_.begin() + static_cast<ptrdiff_t>(begin),
                       aligns_.begin() + static_cast<ptrdiff_t>(end));
    return;
  }
  for (size_t at = begin; at < end;) {
    const size_t size = char_size(text_[at]);
    const uint32_t from = base_ + static_cast<uint32_t>(at);
    new_aligns_.insert(new_aligns_.end(), size, Align{from, from + static_cast<uint32_t>(size)});
    at += size;
  }
}

void AlignedText::end_rewrite() {
  text_.swap(new_text_);
  aligns_.swap(new_aligns_);
  identical_ = false;
}

void AlignedText::transform(const std::vector<Change>& changes) {
  begin_rewrite();
  size_t at = 0;  // the next character of the old text
  const auto skip = [&](size_t characters) {
    for (; characters > 0 && at < text_.size(); --characters) at += char_size(text_[at]);
  };
  for (const Change& change : changes) {
    Align from{base_, base_};
    if (!text_.empty()) {
      const bool is_new = change.change > 0 || at >= text_.size();
      if (is_new && at > 0) from = align(at - 1);
      if (!is_new) from = align(at);
    }
    put(change.c, from);
    if (change.change <= 0) skip(1 + static_cast<size_t>(-change.change));
  }
  end_rewrite();
}

void AlignedText::remove_suffix(size_t bytes) {
  text_.resize(text_.size() - bytes);
  if (!identical_) aligns_.resize(text_.size());
}

}  // namespace headwise::text
