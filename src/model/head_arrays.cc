// Copies arrays of single heads out of a forward pass.
#include "headwise/model/head_arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "headwise/core/error.h"

namespace headwise {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"maps", "q", "k", "v", "z", "contribution"};

void take(View<const float, 3> all, int64_t head, HeadArray& array) {
  array.rows = all.extent(0);
  array.columns = all.extent(2);
  for (int64_t row = 0; row < array.rows; ++row) {
    for (int64_t d = 0; d < array.columns; ++d) array.values.push_back(all(row, head, d));
  }
}

void take_map(const AttentionMaps& maps, int64_t head, const Attention& attention,
              HeadArray& array) {
  array.rows = attention.q.extent(0);
  array.columns = attention.k.extent(0);
  for (int64_t row = 0; row < array.rows; ++row) {
    const auto weights = maps.row(row, head);
    array.values.insert(array.values.end(), weights.begin(), weights.end());
  }
}

/// z W_O', the part of one head in what the attention adds to the residual stream.
void take_contribution(View<const float, 2> output, View<const float, 3> z, int64_t head,
                       HeadArray& array) {
  const int64_t Dv = z.extent(2);
  array.rows = z.extent(0);
  array.columns = output.extent(0);
  for (int64_t row = 0; row < array.rows; ++row) {
    for (int64_t c = 0; c < array.columns; ++c) {
      double sum = 0;
      for (int64_t d = 0; d < Dv; ++d) sum += double{z(row, head, d)} * output(c, head * Dv + d);
      array.values.push_back(static_cast<float>(sum));
    }
  }
}

}  // namespace

std::string_view to_string(HeadArrayKind kind) { return kNames[static_cast<size_t>(kind)]; }

HeadArrayKind head_array_kind(std::string_view name) {
  const auto at = std::ranges::find(kNames, name);
  if (at != kNames.end()) return static_cast<HeadArrayKind>(at - kNames.begin());
  throw Error({.what = "heads have no such array",
               .got = std::string(name),
               .expected = fmt::format("{}", fmt::join(kNames, ", "))});
}

std::vector<std::string_view> head_array_kind_names() { return {kNames.begin(), kNames.end()}; }

HeadRecorder::HeadRecorder(const Model& model, const std::vector<HeadIndex>& heads,
                           HeadArrayKind kind, std::function<void()> check)
    : kind_(kind), check_(std::move(check)) {
  for (const HeadIndex head : heads) {
    const AttentionSite& site = model.attentions()[head.site];
    wanted_[site.name].emplace_back(head.index, arrays.size());
    arrays.push_back({.site = &site, .name = site.head_name(head.index)});
  }
}

void HeadRecorder::on_resid_post(Side, int64_t, View<const float, 2>) {
  if (check_) check_();
}

void HeadRecorder::on_z(const AttentionSite& site, const Attention& attention,
                        const MultiHeadAttention& layer, View<float, 3> z, View<const float, 2>) {
  const auto wanted = wanted_.find(site.name);
  if (wanted == wanted_.end()) return;
  AttentionMaps maps;
  if (kind_ == HeadArrayKind::maps) {
    std::vector<int64_t> rows(attention.q.extent(0));
    std::iota(rows.begin(), rows.end(), 0);
    maps = layer.maps(attention, rows);
  }
  const auto weights = kind_ == HeadArrayKind::contribution ? layer.weights() : nullptr;
  for (const auto& [head, at] : wanted->second) {
    HeadArray& array = arrays[at];
    switch (kind_) {
      case HeadArrayKind::maps:
        take_map(maps, head, attention, array);
        break;
      case HeadArrayKind::q:
      case HeadArrayKind::k:
        if (head >= layer.shape().learned()) {
          throw Error({.what = "a fixed head has no queries and no keys",
                       .where = array.name,
                       .got = std::string(to_string(kind_)),
                       .expected = "maps, v, z or contribution"});
        }
        kind_ == HeadArrayKind::q ? take(attention.q, head, array)
                                  : take(attention.k, layer.shape().kv_of(head), array);
        break;
      case HeadArrayKind::v:
        take(attention.v, layer.shape().kv_of(head), array);
        break;
      case HeadArrayKind::z:
        take(z, head, array);
        break;
      case HeadArrayKind::contribution:
        take_contribution(weights->output(), z, head, array);
        break;
    }
  }
}

}  // namespace headwise
