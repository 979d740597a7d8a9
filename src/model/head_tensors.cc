// Lists the heads of every tensor in the order of its storage.
#include "model/head_tensors.h"

#include <algorithm>
#include <utility>

#include "headwise/model/multi_head_attention.h"
#include "model/stack_layout.h"

namespace headwise {
namespace {

/// The heads of one attention, part by part.
struct Parts {
  std::vector<HeadRows> query, key, value, output;
};

Parts parts_of(const ModelConfig& config, const AttentionConfig& attention, bool cross) {
  const MultiHeadAttentionShape s = resolve(layer_config(config, attention, cross));
  Parts parts;
  const auto add = [](std::vector<HeadRows>& to, HeadPart part, const std::vector<int32_t>& names,
                      int64_t count, int64_t width) {
    for (int64_t i = 0; i < count; ++i) to.push_back({part, names[i], width});
  };
  add(parts.query, HeadPart::query, attention.heads, s.learned(), s.D);
  add(parts.key, HeadPart::key, attention.kv_heads, s.key_heads, s.D);
  add(parts.value, HeadPart::value, attention.kv_heads, s.K, s.Dv);
  add(parts.output, HeadPart::output, attention.heads, s.H, s.Dv);
  return parts;
}

std::vector<HeadRows> fused(const Parts& parts, ProjectionStorage storage) {
  std::vector<HeadRows> rows;
  if (storage == ProjectionStorage::fused) {
    for (const auto* part : {&parts.query, &parts.key, &parts.value}) {
      rows.insert(rows.end(), part->begin(), part->end());
    }
    return rows;
  }
  for (size_t h = 0; h < parts.query.size(); ++h) {
    rows.insert(rows.end(), {parts.query[h], parts.key[h], parts.value[h]});
  }
  return rows;
}

}  // namespace

const AttentionConfig& attention_at(const ModelConfig& config, const AttentionSite& site) {
  const StackConfig& stack = stack_config(config, site.side);
  return (site.kind == AttentionKind::cross ? stack.cross : stack.attention)[site.layer];
}

std::map<std::string, HeadTensor> head_tensors(const ModelConfig& config,
                                               const std::string& prefix) {
  std::map<std::string, HeadTensor> tensors;
  const std::vector<AttentionSite> sites = attention_sites(config);
  for (int64_t i = 0; i < std::ssize(sites); ++i) {
    const AttentionSite& site = sites[i];
    const StackNaming naming(config, site.side, prefix);
    const bool cross = site.kind == AttentionKind::cross;
    const AttentionNames& names = cross ? naming.stack().cross : naming.stack().self;
    const Parts parts = parts_of(config, attention_at(config, site), cross);
    const int64_t outputs = naming.model().transposed ? 1 : 0;  // the axis of a weight
    const auto add = [&](std::string_view name, const std::vector<HeadRows>& rows) {
      const std::string full = naming.in_layer(site.layer, name);
      tensors[full + ".weight"] = {.site = i, .axis = outputs, .rows = rows};
      tensors[full + ".bias"] = {.site = i, .axis = 0, .rows = rows};
    };
    if (naming.model().storage == ProjectionStorage::separate) {
      add(names.query, parts.query);
      add(names.key, parts.key);
      add(names.value, parts.value);
    } else {
      add(names.query, fused(parts, naming.model().storage));
    }
    tensors[naming.in_layer(site.layer, names.output) + ".weight"] = {
        .site = i, .axis = 1 - outputs, .rows = parts.output};
    if (config.relative.buckets > 0 && !cross && site.layer == 0) {
      HeadTensor table{.site = i, .axis = 1};
      for (int32_t h = 0; h < stack_config(config, site.side).heads; ++h) {
        table.rows.push_back({HeadPart::bias, h, 1});
      }
      tensors[naming.full(naming.stack().relative_bias) + ".weight"] = std::move(table);
    }
  }
  return tensors;
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
