// Cuts heads out of tensors.
#include "model/head_tensors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/stack_layout.h"

namespace headwise {

const AttentionConfig& attention_at(const ModelConfig& config, const AttentionSite& site) {
  const StackConfig& stack = stack_config(config, site.side);
  return (site.kind == AttentionKind::cross ? stack.cross : stack.attention)[site.layer];
}

CutTensor cut(const HeadTensor& from, const HeadTensor& to, std::vector<int64_t> shape,
              std::span<const std::byte> bytes, size_t element) {
  int64_t line = 0, kept = 0, behind = static_cast<int64_t>(element);  // bytes of one row
  for (int64_t i = from.axis + 1; i < std::ssize(shape); ++i) behind *= shape[i];
  for (const HeadRows& rows : from.rows) line += rows.width * behind;
  std::vector<std::pair<int64_t, int64_t>> runs;  // first byte, bytes
  for (const HeadRows& wanted : to.rows) {
    int64_t first = 0;
    for (const HeadRows& rows : from.rows) {
      if (rows == wanted) break;
      first += rows.width * behind;
    }
    runs.emplace_back(first, wanted.width * behind);
    kept += wanted.width;
  }
  CutTensor result;
  for (int64_t begin = 0; begin < std::ssize(bytes); begin += line) {
    for (const auto& [first, count] : runs) {
      const auto part = bytes.subspan(begin + first, count);
      result.bytes.insert(result.bytes.end(), part.begin(), part.end());
    }
  }
  shape[from.axis] = kept;
  result.shape = std::move(shape);
  return result;
}

}  // namespace headwise
