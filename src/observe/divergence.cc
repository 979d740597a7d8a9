// js: how differently two heads look at the same texts.
#include <algorithm>
#include <map>
#include <utility>

#include "observe/watcher.h"

namespace headwise {
namespace {

/// Divergences of all pairs of some heads, summed over rows.
struct PairSums {
  std::vector<std::string> heads{};
  std::vector<double> sums{};   // [heads, heads]
  std::vector<int64_t> rows{};  // likewise
};

/// The attention of some heads, in memory of its own.
class KeptHeads {
 public:
  explicit KeptHeads(const AttendedHeads& heads) : heads_(heads) {
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

  const AttendedHeads& heads() const { return heads_; }

 private:
  static View<const float, 3> copy(View<const float, 3> from, Buffer& to) {
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

  AttendedHeads heads_;
  Buffer q_, k_, lse_;
  std::vector<int64_t> q_offsets_, k_offsets_;
};

/// The heads of a layer as groups, each with its part of lse. Weights are those before gates, and a
/// gate of 0 leaves none.
class LayerHeads {
 public:
  LayerHeads(const Attention& attention, const MultiHeadAttention& layer,
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

  std::span<const AttendedHeads> groups() const { return groups_; }

 private:
  void attend_again(AttendedHeads& heads) {
    Attention& a = heads.attention;
    a.gates = {};
    const int64_t T = a.q.extent(0), H = a.q.extent(1), Dv = a.v.extent(2);
    const Buffer z(T * H * Dv);
    const Buffer& lse = lse_.emplace_back(T * H);
    attention_forward(a, z.view({T, H, Dv}), lse.view({T, H}));
    heads.lse = lse.view({T, H});
  }

  std::vector<AttendedHeads> groups_;
  std::vector<Buffer> lse_;
};

class Divergence : public Watcher {
 public:
  explicit Divergence(const WatchContext& context) : context_(context) {}

  void attended(const AttentionSite& site, const Attention& attention,
                const MultiHeadAttention& layer, View<const float, 3>,
                View<const float, 2> lse) override {
    if (site.heads.empty()) return;
    const LayerHeads heads(attention, layer, lse);
    if (!context_.all_pairs) {
      add(heads.groups(), {&site, 1}, sums_[site.name]);
      return;
    }
    Kept& kept = kept_[type_of(site)];
    // A layer comes again before the batch ends where texts are run one by one.
    if (!kept.sites.empty() && kept.sites.back().layer >= site.layer) compare(type_of(site), kept);
    kept.sites.push_back(site);
    for (const AttendedHeads& group : heads.groups()) kept.heads.emplace_back(group);
  }

  void end(View<const float, 2>) override {
    for (auto& [type, kept] : kept_) compare(type, kept);
  }

  void finish(std::span<Measures>, Evidence& evidence) override {
    auto& matrices = evidence.pairs["js"];
    for (const auto& [name, sums] : sums_) {
      const PairMatrix all = means(sums);
      matrices[name] = all;
      if (!context_.all_pairs) continue;
      for (const AttentionSite& site : context_.model.attentions()) {
        if (!site.heads.empty() && type_of(site) == name) matrices[site.name] = part(all, site);
      }
    }
    if (matrices.empty()) evidence.pairs.erase("js");
  }

 private:
  /// What has been attended to in this batch by attentions of one type.
  struct Kept {
    std::vector<AttentionSite> sites{};
    std::vector<KeptHeads> heads{};
  };

  /// "all"; in encoder-decoders "enc", "dec", "cross".
  static std::string type_of(const AttentionSite& site) {
    const size_t dot = site.name.find('.');
    return dot == std::string::npos ? "all" : site.name.substr(0, dot);
  }

  void compare(const std::string& type, Kept& kept) {
    std::vector<AttendedHeads> heads;
    for (const KeptHeads& one : kept.heads) heads.push_back(one.heads());
    if (!heads.empty()) add(heads, kept.sites, sums_[type]);
    kept = {};
  }

  static void add(std::span<const AttendedHeads> groups, std::span<const AttentionSite> sites,
                  PairSums& to) {
    if (to.heads.empty()) {
      for (const AttentionSite& site : sites) {
        for (int64_t h = 0; h < std::ssize(site.heads); ++h) to.heads.push_back(site.head_name(h));
      }
      to.sums.resize(to.heads.size() * to.heads.size());
      to.rows.resize(to.sums.size());
    }
    const auto H = std::ssize(to.heads), G = std::ssize(groups);
    std::vector<int64_t> group_of, rows(G * G);
    for (int64_t g = 0; g < G; ++g) group_of.insert(group_of.end(), groups[g].lse.extent(1), g);
    attention_js(groups, {to.sums.data(), {H, H}}, {rows.data(), {G, G}});
    for (int64_t a = 0; a < H; ++a) {
      for (int64_t b = 0; b < H; ++b) to.rows[a * H + b] += rows[group_of[a] * G + group_of[b]];
    }
  }

  static PairMatrix means(const PairSums& sums) {
    PairMatrix matrix = pair_matrix(sums.heads);
    for (size_t i = 0; i < sums.sums.size(); ++i) {
      // Of equal rows rounding may leave a little less than nothing.
      if (sums.rows[i] > 0) {
        matrix.values[i] = std::max(sums.sums[i], 0.) / static_cast<double>(sums.rows[i]);
      }
    }
    return matrix;
  }

  static PairMatrix part(const PairMatrix& all, const AttentionSite& site) {
    const auto count = std::ssize(site.heads);
    const auto first = std::ranges::find(all.heads, site.head_name(0)) - all.heads.begin();
    PairMatrix matrix = pair_matrix({all.heads.begin() + first, all.heads.begin() + first + count});
    for (int64_t a = 0; a < count; ++a) {
      for (int64_t b = 0; b < count; ++b) matrix.at(a, b) = all.at(first + a, first + b);
    }
    return matrix;
  }

  const WatchContext& context_;
  std::map<std::string, PairSums> sums_;  // by the name of a layer, or of all
  std::map<std::string, Kept> kept_;
};

}  // namespace

std::unique_ptr<Watcher> watch_divergence(const WatchContext& context) {
  return std::make_unique<Divergence>(context);
}

}  // namespace headwise
