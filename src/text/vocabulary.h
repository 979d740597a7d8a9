// Tokens and their ids: strings in one arena, found by a hash table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headwise::text {

uint64_t hash_bytes(std::string_view bytes);

/// Tokens that are looked for at every place of a text must not be long, or it takes the product of
/// both lengths. Throws Error, with `where`, for one of more than 4,096 bytes.
void check_token_length(std::string_view token, const std::string& where);

class Vocabulary {
 public:
  void reserve(size_t tokens, size_t bytes);

  /// False if the token is there already; it keeps its id then.
  bool add(std::string_view token, int32_t id);

  size_t size() const { return ids_.size(); }
  std::optional<int32_t> find(std::string_view token) const;

  // In the order they were added.
  std::string_view token_at(size_t index) const {
    return std::string_view(arena_).substr(begins_[index], begins_[index + 1] - begins_[index]);
  }
  int32_t id_at(size_t index) const { return ids_[index]; }

  /// The token with an id, the last one added if there are several; empty if there is none. Needs
  /// index_ids(), which throws Error, with `where`, if an id is far beyond the number of tokens.
  void index_ids(const std::string& where);
  bool has(int32_t id) const;
  std::string_view token(int32_t id) const;
  int32_t largest_id() const { return largest_id_; }  // -1 if empty

 private:
  void grow();
  void resize_slots(size_t slots);
  size_t place(std::string_view token, uint64_t hash) const;  // its slot, or the free one for it

  struct Slot {
    uint32_t tag = 0;    // bits of the hash
    uint32_t index = 0;  // of the token, plus 1; 0: free
  };
  std::string arena_;
  std::vector<uint32_t> begins_{0};
  std::vector<int32_t> ids_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> by_id_;  // index plus 1
  int32_t largest_id_ = -1;
};

}  // namespace headwise::text
