// Copies what heads attended with, and adds up their divergences.
#include "observe/kept_heads.h"

#include <algorithm>

namespace headwise {
namespace {

View<const float, 3> copy(View<const float, 3> from, Buffer& to) {
  const auto [rows, heads, width] = from.shape();
  to = Buffer(rows * heads * width);
  const View<float, 3> copied = to.view({rows, heads, width});
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t c = 0; c < width; ++c) copied(t, h, c) = from(t, h, c);
    }
  }
  return copied;
}

}  // namespace

KeptHeads::KeptHeads(const AttendedHeads& heads) : heads_(heads) {
  Attention& a = heads_.attention;
  a.q = copy(a.q, q_);
  a.k = a.v = copy(a.k, k_);  // values do not matter here
  a.gates = {};
  q_offsets_.assign(a.q_offsets.begin(), a.q_offsets.end());
  k_offsets_.assign(a.k_offsets.begin(), a.k_offsets.end());
  a.q_offsets = q_offsets_;
  a.k_offsets = k_offsets_;
  const auto [T, H] = heads.lse.shape();
  lse_ = Buffer(T * H);
  const View<float, 2> lse = lse_.view({T, H});
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t h = 0; h < H; ++h) lse(t, h) = heads.lse(t, h);
  }
  heads_.lse = lse;
}

LayerHeads::LayerHeads(const Attention& attention, const MultiHeadAttention& layer,
                       View<const float, 2> lse) {
  for (const HeadGroup& group : layer.groups(attention)) {
    if (group.count == 0) continue;
    AttendedHeads& heads =
        groups_.emplace_back(AttendedHeads{.attention = group.attention,
                                           .lse = {lse.data() + group.first * lse.stride(1),
                                                   {lse.extent(0), group.count},
                                                   lse.strides()}});
    if (attention.gates.data() != nullptr) attend_again(heads);
  }
}

void LayerHeads::attend_again(AttendedHeads& heads) {
  Attention& a = heads.attention;
  a.gates = {};
  const int64_t T = a.q.extent(0), H = a.q.extent(1), Dv = a.v.extent(2);
  const Buffer z(T * H * Dv);
  const Buffer& lse = lse_.emplace_back(T * H);
  attention_forward(a, z.view({T, H, Dv}), lse.view({T, H}));
  heads.lse = lse.view({T, H});
}

void DivergenceSums::add(std::span<const AttendedHeads> groups) {
  const auto G = std::ssize(groups);
  std::vector<int64_t> group_of, rows(G * G);
  for (int64_t g = 0; g < G; ++g) group_of.insert(group_of.end(), groups[g].lse.extent(1), g);
  attention_js(groups, {sums_.data(), {heads_, heads_}}, {rows.data(), {G, G}});
  for (int64_t a = 0; a < heads_; ++a) {
    for (int64_t b = 0; b < heads_; ++b) {
      rows_[a * heads_ + b] += rows[group_of[a] * G + group_of[b]];
    }
  }
}

double DivergenceSums::mean(int64_t a, int64_t b) const {
  const int64_t at = a * heads_ + b;
  // Of equal rows rounding may leave a little less than nothing.
  return std::max(sums_[at], 0.) / static_cast<double>(rows_[at]);
}

std::string type_of(const AttentionSite& site) {
  const size_t dot = site.name.find('.');
  return dot == std::string::npos ? "all" : site.name.substr(0, dot);
}

}  // namespace headwise
