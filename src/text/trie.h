// A trie over bytes in a double array: one step per byte, whatever the number of entries.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace headwise::text {

class Trie {
 public:
  static constexpr int32_t kNone = -1;

  Trie() = default;
  /// Entries need not be sorted; none may be empty; of equal ones the last counts. Values are at
  /// least 0.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> entries);

  /// Calls `found(size, value)` for every entry that `text` starts with, shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found found) const {
    uint32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      node = child(node, static_cast<uint8_t>(text[at]));
      if (node == 0) return;
      if (nodes_[node].value != kNone) found(at + 1, nodes_[node].value);
    }
  }

  struct Longest {
    size_t size = 0;  // 0: none
    int32_t value = kNone;
  };
  Longest longest_prefix(std::string_view text) const {
    Longest longest;
    prefixes(text, [&](size_t size, int32_t value) { longest = {size, value}; });
    return longest;
  }

  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    uint32_t base = 0;    // the child by byte b is node base ^ b
    uint32_t parent = 0;  // plus 1; 0: free
    int32_t value = kNone;
  };

  uint32_t child(uint32_t node, uint8_t byte) const {
    if (nodes_.empty()) return 0;
    const uint32_t at = nodes_[node].base ^ byte;
    return at < nodes_.size() && nodes_[at].parent == node + 1 ? at : 0;
  }

  class Builder;
  std::vector<Node> nodes_;  // 0 is the root
};

}  // namespace headwise::text
