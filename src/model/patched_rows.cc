// Lays out the rows of variants.
#include "model/patched_rows.h"

#include <fmt/format.h>

#include "headwise/core/error.h"

namespace headwise {

TextRows all_rows(const TokenBatch& batch) {
  TextRows all{.offsets = batch.offsets};
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    for (int64_t i = 0; i < batch.offsets[b + 1] - batch.offsets[b]; ++i) {
      all.positions.push_back(i);
    }
  }
  return all;
}

TextRows some_rows(const TokenBatch& batch, std::span<const int64_t> rows) {
  TextRows some;
  size_t at = 0;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    for (; at < rows.size() && rows[at] < batch.offsets[b + 1]; ++at) {
      if (rows[at] < batch.offsets[b] || (at > 0 && rows[at] <= rows[at - 1])) break;
      some.positions.push_back(rows[at] - batch.offsets[b]);
    }
    some.offsets.push_back(static_cast<int64_t>(at));
  }
  if (at == rows.size()) return some;
  throw Error({.what = "rows that are wanted of a batch are not there, or do not ascend",
               .where = fmt::format("rows[{}]", at),
               .got = fmt::format("{}", rows[at]),
               .expected = fmt::format("ascending, below {}", batch.rows())});
}

Sequences::Sequences(const TextRows& rows, int64_t variants, bool by_text) {
  const int64_t outer = by_text ? rows.sequences() : variants;
  const int64_t inner = by_text ? variants : rows.sequences();
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      const int64_t b = by_text ? i : j;
      positions.insert(positions.end(), rows.positions.begin() + rows.offsets[b],
                       rows.positions.begin() + rows.offsets[b + 1]);
      offsets.push_back(std::ssize(positions));
    }
    groups.push_back(std::ssize(positions));
  }
}

std::vector<int64_t> find_rows(const Sequences& some, const Sequences& all) {
  std::vector<int64_t> rows;
  rows.reserve(some.positions.size());
  for (size_t s = 0; s + 1 < some.offsets.size(); ++s) {
    for (int64_t i = some.offsets[s]; i < some.offsets[s + 1]; ++i) {
      rows.push_back(all.offsets[s] + some.positions[i]);
    }
  }
  return rows;
}

}  // namespace headwise
