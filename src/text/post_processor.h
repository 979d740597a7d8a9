// What the template puts around the tokens of one text or of two.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/io/json.h"

namespace headwise::text {

struct TemplateItem {
  int8_t sequence = 0;  // 0, 1, or -1: a special token
  int32_t id = 0;       // of the special token
  int32_t type = 0;
};

struct PostProcessor {
  std::vector<TemplateItem> single{{0, 0, 0}};
  std::vector<TemplateItem> pair{{0, 0, 0}, {1, 0, 1}};
  /// For each time that space is trimmed off the offsets: whether a first space counts as put there
  /// by the tokenizer.
  std::vector<bool> trims{};
};

/// What the file's "post_processor" describes. Throws Error for a type that is not known.
PostProcessor make_post_processor(const JsonObject& part);

}  // namespace headwise::text
