// Which tokens of an encoded text lie in which of its parts.
#include <algorithm>

#include "headwise/text/treebank.h"

namespace headwise {

std::vector<TokenSpan> tokens_of_spans(const Encoding& encoding,
                                       const std::vector<TokenSpan>& bytes) {
  std::vector<int64_t> tokens;  // those of the text, by where they begin
  for (int64_t i = 0; i < std::ssize(encoding.ids); ++i) {
    if (encoding.sequence[i] == 0 && encoding.bytes[i].begin < encoding.bytes[i].end) {
      tokens.push_back(i);
    }
  }
  std::ranges::stable_sort(tokens, {}, [&](int64_t i) { return encoding.bytes[i].begin; });
  std::vector<int64_t> reach;  // how far tokens go up to each
  for (const int64_t i : tokens) {
    reach.push_back(std::max(reach.empty() ? 0 : reach.back(), encoding.bytes[i].end));
  }
  std::vector<bool> taken(encoding.ids.size());
  std::vector<TokenSpan> result;
  for (const TokenSpan& span : bytes) {
    TokenSpan found;
    auto at = std::ranges::upper_bound(reach, span.begin) - reach.begin();
    if (span.begin >= span.end) at = std::ssize(tokens);
    for (; at < std::ssize(tokens) && encoding.bytes[tokens[at]].begin < span.end; ++at) {
      const int64_t token = tokens[at];
      if (taken[token] || encoding.bytes[token].end <= span.begin) continue;
      if (found.begin == found.end) found = {token, token};
      if (token != found.end) break;  // not beside the others
      taken[token] = true;
      ++found.end;
    }
    result.push_back(found);
  }
  return result;
}

}  // namespace headwise
