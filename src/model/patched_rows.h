// Rows of the texts of a batch, and of several variants of them one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/model/model.h"

namespace headwise {

/// Some rows of each text, by their positions in it.
struct TextRows {
  std::vector<int64_t> offsets = {0};  // [B+1]
  std::vector<int64_t> positions{};

  int64_t rows() const { return offsets.back(); }
  int64_t sequences() const { return std::ssize(offsets) - 1; }
};

TextRows all_rows(const TokenBatch& batch);
/// Throws Error unless the rows are there, and ascend.
TextRows some_rows(const TokenBatch& batch, std::span<const int64_t> rows);

/// The rows of several variants of a batch: variant by variant, or all of text 0, then of text 1, …
struct Sequences {
  std::vector<int64_t> offsets = {0};  // [V * B + 1], of texts of variants
  std::vector<int64_t> positions{};    // of rows in their texts
  std::vector<int64_t> groups = {0};   // where variants begin, or texts

  Sequences(const TextRows& rows, int64_t variants, bool by_text);
};

/// Where rows of `some` lie among `all`, which has every row of its texts.
std::vector<int64_t> find_rows(const Sequences& some, const Sequences& all);

}  // namespace headwise
