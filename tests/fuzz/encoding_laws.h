// What holds of the encoding of any text by any tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fuzz.h"
#include "headwise/text/tokenizer.h"

namespace headwise::fuzz {

inline void check_places(const Tokenizer& tokenizer, const Encoding& e, std::string_view first,
                         std::string_view second) {
  const size_t n = e.ids.size();
  must(e.type_ids.size() == n && e.words.size() == n && e.special.size() == n &&
           e.bytes.size() == n && e.code_points.size() == n && e.sequence.size() == n,
       "vectors of other sizes");
  for (size_t i = 0; i < n; ++i) {
    must(e.ids[i] >= 0 && e.ids[i] < tokenizer.size(), "an id out of range");
    const std::string_view text = e.sequence[i] == 1 ? second : first;
    const auto [begin, end] = e.bytes[i];
    must(0 <= begin && begin <= end && end <= static_cast<int64_t>(text.size()),
         "bytes outside the text");
    must(0 <= e.code_points[i].begin && e.code_points[i].begin <= e.code_points[i].end &&
             e.code_points[i].begin <= begin && e.code_points[i].end <= end,
         "code points outside the text");
  }
}

inline void check_encoding(const Tokenizer& tokenizer, std::string_view text) {
  const Encoding e = tokenizer.encode(text);
  check_places(tokenizer, e, text, {});
  const Encoding plain = tokenizer.encode(text, {.add_special = false});
  must(plain.ids.size() <= e.ids.size(), "fewer tokens with special ones");
  must(tokenizer.encode(text).ids == e.ids, "another encoding the second time");
  tokenizer.decode(e.ids);
  tokenizer.decode(e.ids, false);

  const std::string_view first = text.substr(0, text.size() / 2),
                         second = text.substr(first.size());
  check_places(tokenizer, tokenizer.encode(first, second), first, second);
  succeeds([&] {  // refused if the template alone is longer
    const Encoding cut = tokenizer.encode(first, second, {.truncate = 4});
    check_places(tokenizer, cut, first, second);
    must(cut.ids.size() <= 4, "more tokens than asked for");
  });
}

}  // namespace headwise::fuzz
