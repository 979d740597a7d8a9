// What becomes of the text between and at the matches of a pattern.
#include "text/split.h"

namespace headwise::text {
namespace {

/// Calls `segment(begin, end, is_match)` for all of the piece, in order.
template <class Segment>
void for_each_segment(const Piece& piece, const std::vector<Match>& matches, bool invert,
                      Segment segment) {
  uint32_t at = piece.begin;
  for (const Match& match : matches) {
    const uint32_t begin = piece.begin + match.begin;
    if (begin > at) segment(at, begin, invert);
    at = piece.begin + match.end;
    segment(begin, at, !invert);
  }
  if (piece.end > at) segment(at, piece.end, invert);
}

}  // namespace

SplitBehavior split_behavior(const JsonObject& part, const char* field) {
  const std::string& name = part.text(field);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  part.refuse(field, "tokenizer: a behavior that is not known",
              "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void split_at(const Piece& piece, const std::vector<Match>& matches, SplitBehavior behavior,
              bool invert, std::vector<Piece>& out) {
  const size_t first = out.size();
  bool last_match = false;
  for_each_segment(piece, matches, invert, [&](uint32_t begin, uint32_t end, bool match) {
    const bool has_last = out.size() > first;
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (!match) out.push_back({begin, end});
        break;
      case SplitBehavior::kIsolated:
        out.push_back({begin, end});
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (match && !last_match && has_last) {
          out.back().end = end;
        } else {
          out.push_back({begin, end});
        }
        break;
      case SplitBehavior::kMergedWithNext:
        // A match waits as a piece of its own until something else follows.
        if (!match && last_match && has_last) {
          out.back().end = end;
        } else {
          out.push_back({begin, end});
        }
        break;
      case SplitBehavior::kContiguous:
        if (match == last_match && has_last) {
          out.back().end = end;
        } else {
          out.push_back({begin, end});
        }
        break;
    }
    last_match = match;
  });
}

}  // namespace headwise::text
