// Building the double array: the children of a node go to the first place where all of them fit.
#include "text/trie.h"

#include <algorithm>

namespace headwise::text {

class Trie::Builder {
 public:
  Builder(std::vector<std::pair<std::string_view, int32_t>> entries, std::vector<Node>& nodes)
      : entries_(std::move(entries)), nodes_(nodes) {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    nodes_.resize(256);
    nodes_[0].parent = 1;
    // A list of work rather than recursion: an entry may be as long as a file.
    work_.push_back({0, entries_.size(), 0, 0});
    while (!work_.empty()) {
      const Work work = work_.back();
      work_.pop_back();
      place_children(work);
    }
  }

 private:
  struct Work {
    size_t begin, end;  // the entries below the node
    size_t depth;
    uint32_t node;
  };
  struct Child {
    uint8_t byte;
    size_t begin, end;
  };

  void place_children(const Work& work) {
    size_t at = work.begin;
    for (; at < work.end && entries_[at].first.size() == work.depth; ++at) {
      nodes_[work.node].value = entries_[at].second;
    }
    children_.clear();
    while (at < work.end) {
      const auto byte = static_cast<uint8_t>(entries_[at].first[work.depth]);
      const size_t begin = at;
      while (at < work.end && static_cast<uint8_t>(entries_[at].first[work.depth]) == byte) ++at;
      children_.push_back({byte, begin, at});
    }
    if (children_.empty()) return;
    const uint32_t base = find_base();
    nodes_[work.node].base = base;
    for (const Child& child : children_) {
      const uint32_t node = base ^ child.byte;
      nodes_[node].parent = work.node + 1;
      work_.push_back({child.begin, child.end, work.depth + 1, node});
    }
  }

  // The children of a node lie in one block of 256. Places that were tried often without success
  // are not looked at again.
  uint32_t find_base() {
    const uint8_t first = children_[0].byte;
    size_t tries = 0;
    for (size_t at = first_free_;; ++at) {
      if (at >= nodes_.size()) nodes_.resize(nodes_.size() + 256);
      if (nodes_[at].parent != 0) {
        if (at == first_free_) ++first_free_;
        continue;
      }
      const uint32_t base = static_cast<uint32_t>(at) ^ first;
      if (fits(base)) return base;
      if (++tries == kMostTries) {
        first_free_ = std::max(first_free_, at > kMostTries ? at - kMostTries / 2 : 0);
        tries = 0;
      }
    }
  }

  bool fits(uint32_t base) const {
    return std::all_of(children_.begin(), children_.end(), [&](const Child& child) {
      const uint32_t node = base ^ child.byte;
      return node != 0 && nodes_[node].parent == 0;
    });
  }

  static constexpr size_t kMostTries = 64;
  std::vector<std::pair<std::string_view, int32_t>> entries_;
  std::vector<Node>& nodes_;
  std::vector<Work> work_;
  std::vector<Child> children_;
  size_t first_free_ = 1;
};

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  if (!entries.empty()) Builder(std::move(entries), nodes_);
}

}  // namespace headwise::text
