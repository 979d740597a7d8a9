// js: how differently two heads attend to the same texts.
#include <map>
#include <utility>

#include "observe/head_metric.h"
#include "observe/kept_heads.h"
#include "observe/layers.h"

namespace headwise {
namespace {

/// What is known about pairs of some heads.
struct PairSums {
  std::vector<std::string> heads{};
  DivergenceSums sums{};
};

class Divergence : public HeadMetric {
 public:
  explicit Divergence(const MetricContext& context) : context_(context) {}

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<const float, 3>, View<const float, 2> lse) override {
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

  void end() override {
    for (auto& [type, kept] : kept_) compare(type, kept);
  }

  void finish(std::span<Measures>, Evidence& evidence) override {
    auto& matrices = evidence.pairs["js"];
    for (const auto& [name, pairs] : sums_) {
      const PairMatrix all = means(pairs);
      matrices[name] = all;
      if (!context_.all_pairs) continue;
      for (const AttentionSite& site : context_.model.attentions()) {
        if (!site.heads.empty() && type_of(site) == name) {
          matrices[site.name] =
              part_of(all, [&](const std::string& head) { return layer_of(head) == site.name; });
        }
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
      to.sums = DivergenceSums(std::ssize(to.heads));
    }
    to.sums.add(groups);
  }

  static PairMatrix means(const PairSums& pairs) {
    PairMatrix matrix = pair_matrix(pairs.heads);
    for (int64_t a = 0; a < std::ssize(matrix.heads); ++a) {
      for (int64_t b = 0; b < std::ssize(matrix.heads); ++b) {
        matrix.at(a, b) = pairs.sums.mean(a, b);
      }
    }
    return matrix;
  }

  const MetricContext& context_;
  std::map<std::string, PairSums> sums_;  // by the name of a layer, or of all
  std::map<std::string, Kept> kept_;
};

}  // namespace

std::unique_ptr<HeadMetric> divergence_metric(const MetricContext& context) {
  return std::make_unique<Divergence>(context);
}

}  // namespace headwise
