// SentencePiece's precompiled character map: a double-array trie of byte strings and their
// replacements.
#include <cstring>

#include "headwise/core/error.h"
#include "text/normalizer.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

class CharsMap : public Normalizer {
 public:
  CharsMap(const std::string& map, const std::string& where) {
    uint32_t size = 0;
    if (map.size() >= 4) std::memcpy(&size, map.data(), 4);
    if (map.size() < 4 || size > map.size() - 4 || size < 4 || size % 4 != 0) {
      throw Error({.what = "tokenizer: the precompiled character map is broken",
                   .where = where,
                   .got = std::to_string(map.size()) + " bytes, of which the trie has " +
                          std::to_string(size),
                   .expected = "the trie's size in 4 bytes, the trie, the replacements"});
    }
    units_.resize(size / 4);
    std::memcpy(units_.data(), map.data() + 4, size);
    replacements_ = map.substr(4 + size);
    if (!is_valid_utf8(replacements_)) {
      throw Error(
          {.what = "tokenizer: the replacements of the precompiled character map are no UTF-8",
           .where = where});
    }
    for (unsigned c = 1; c < 128; ++c) {
      const char byte = static_cast<char>(c);
      changes_ascii_[c] = find({&byte, 1}).has_value();
    }
  }

  // The package maps a whole grapheme cluster if it is short, else character by character, and
  // takes the shortest entry that the cluster starts with.
  void apply(AlignedText& text) const override {
    if (is_plain(text.text())) return;
    const std::string& bytes = text.text();
    std::vector<uint32_t> ends;
    grapheme_ends(bytes, ends);
    std::vector<Change> changes;
    changes.reserve(bytes.size());
    bool changed = false;
    size_t begin = 0;
    for (const uint32_t end : ends) {
      const std::string_view cluster(bytes.data() + begin, end - begin);
      begin = end;
      if (const auto whole = cluster.size() < 6 ? find(cluster) : std::nullopt) {
        replace(changes, cluster, *whole);
        changed = true;
        continue;
      }
      for (size_t at = 0; at < cluster.size();) {
        const size_t from = at;
        const char32_t c = next_char(cluster, at);
        const std::string_view one = cluster.substr(from, at - from);
        if (const auto replacement = find(one)) {
          replace(changes, one, *replacement);
          text.need_room(changes.size());
          changed = true;
        } else {
          changes.push_back({c, 0});
        }
      }
    }
    if (changed) text.transform(changes);
  }

 private:
  bool is_plain(std::string_view text) const {
    for (size_t at = 0; at < text.size(); ++at) {
      const auto byte = static_cast<uint8_t>(text[at]);
      if (byte >= 128 || changes_ascii_[byte]) return false;
    }
    return true;
  }

  std::optional<std::string_view> find(std::string_view key) const {
    const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
    size_t node = offset(units_[0]);
    for (const char byte : key) {
      const auto label = static_cast<uint8_t>(byte);
      if (label == 0) break;
      node ^= label;
      if (node >= units_.size()) break;
      const uint32_t unit = units_[node];
      if ((unit & (1u << 31 | 0xFF)) != label) break;
      node ^= offset(unit);
      if (node >= units_.size()) break;
      if (unit >> 8 & 1) {
        const size_t at = units_[node] & ((1u << 31) - 1);
        if (at >= replacements_.size()) return std::string_view();
        return std::string_view(replacements_.c_str() + at);
      }
    }
    return std::nullopt;
  }

  static void replace(std::vector<Change>& changes, std::string_view old, std::string_view now) {
    int32_t surplus = 0;
    for (const char byte : old) surplus -= !is_continuation(byte);
    for (const char byte : now) surplus += !is_continuation(byte);
    for (size_t at = 0; at < now.size();) changes.push_back({next_char(now, at), 0});
    if (surplus > 0) {
      for (size_t i = 0; i < static_cast<size_t>(surplus); ++i) {
        changes[changes.size() - 1 - i].change = 1;
      }
    } else if (surplus < 0 && !changes.empty()) {
      changes.back().change += surplus;
    }
  }

  std::vector<uint32_t> units_;
  std::string replacements_;
  bool changes_ascii_[128] = {};
};

}  // namespace

std::unique_ptr<const Normalizer> make_charsmap_normalizer(const std::string& charsmap,
                                                           const std::string& where) {
  return std::make_unique<CharsMap>(charsmap, where);
}

}  // namespace headwise::text
