// Ranks, copying and the subspaces of heads, all from the same small factors of their weights.
#include "headwise/observe/head_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/linear_algebra.h"
#include "core/nan.h"
#include "headwise/core/parallel.h"
#include "headwise/kernels/gemm.h"
#include "observe/composition.h"

namespace headwise {
namespace {

/// What one projection of a head reads, or writes: the space that its rows [D, C] span.
struct Subspace {
  RowSpace space{};
  Buffer basis{};  // that of the space, in float

  View<const float, 2> rows() const { return basis.view({space.basis.rows, space.basis.columns}); }
};

Subspace subspace_of(View<const float, 2> rows) {
  Subspace result{.space = row_space(DoubleMatrix(rows))};
  const std::vector<double>& values = result.space.basis.values;
  result.basis = Buffer(std::ssize(values));
  for (size_t i = 0; i < values.size(); ++i) result.basis[i] = static_cast<float>(values[i]);
  return result;
}

/// Of the projections of one attention: queries [learned heads], keys [key heads], values [K],
/// outputs [H].
struct Projections {
  std::vector<Subspace> query{}, key{}, value{}, output{};
};

Projections projections_of(const MultiHeadAttentionWeights& w) {
  const MultiHeadAttentionShape& s = w.shape();
  Projections result{.query = std::vector<Subspace>(s.learned()),
                     .key = std::vector<Subspace>(s.key_heads),
                     .value = std::vector<Subspace>(s.K),
                     .output = std::vector<Subspace>(s.H)};
  struct Part {
    std::vector<Subspace>& to;
    View<const float, 2> rows;
    int64_t width;
  };
  for (const Part& part :
       {Part{result.query, w.query(), s.D}, Part{result.key, w.key(), s.D},
        Part{result.value, w.value(), s.Dv}, Part{result.output, transposed(w.output()), s.Dv}}) {
    parallel_for(std::ssize(part.to), [&](int64_t i) {
      part.to[i] = subspace_of(part.rows.rows(i * part.width, (i + 1) * part.width));
    });
  }
  return result;
}

/// Σ Re λ / Σ |λ| of W_O W_V, which has the eigenvalues of W_V W_O but for zeros. NaN where the
/// head writes to another stream than it reads, of another width, or where all are 0.
double copying(const MultiHeadAttentionWeights& weights, int64_t head) {
  const MultiHeadAttentionShape& s = weights.shape();
  if (s.C != s.Cs) return kNaN;
  const int64_t kv = s.kv_of(head);
  const DoubleMatrix value(weights.value().rows(kv * s.Dv, (kv + 1) * s.Dv));
  const DoubleMatrix output(transposed(weights.output()).rows(head * s.Dv, (head + 1) * s.Dv));
  double real = 0, size = 0;
  for (const std::complex<double>& lambda : eigenvalues(product_with_transposed(output, value))) {
    real += lambda.real();
    size += std::abs(lambda);
  }
  return real / size;
}

SubspaceRelation relate(const Subspace& a, const Subspace& b) {
  const int64_t ranks[] = {a.space.rank(), b.space.rank()};
  const auto is_known = [](const RowSpace& space) {
    return space.rank() > 0 && !std::isnan(space.basis(0, 0));
  };
  if (!is_known(a.space) || !is_known(b.space)) return {};
  if (&a == &b) return {.overlap = 1, .angle = 0};
  const Buffer product(ranks[0] * ranks[1]);
  const View<float, 2> cosines = product.view({ranks[0], ranks[1]});
  gemm(a.rows(), transposed(b.rows()), cosines);
  const DoubleMatrix exact{View<const float, 2>(cosines)};
  return {
      .overlap = inner_product(exact, exact) / static_cast<double>(std::min(ranks[0], ranks[1])),
      .angle = smallest_angle(a.space, b.space, exact)};
}

/// The matrices of one projection, which the first `heads` heads of an attention have, `of` being
/// which subspace each of them has. Fixed heads, which come last, have no queries and keys.
void add_relations(const AttentionSite& site, const std::string& side,
                   const std::vector<Subspace>& subspaces, int64_t heads,
                   const std::function<int64_t(int64_t)>& of, Evidence& evidence) {
  if (heads == 0) return;
  const auto count = std::ssize(subspaces);
  std::vector<SubspaceRelation> relations(count * count);
  parallel_for(count * count, [&](int64_t i) {
    const int64_t a = i / count, b = i % count;
    if (a <= b) relations[i] = relate(subspaces[a], subspaces[b]);
  });
  std::vector<std::string> names;
  for (int64_t h = 0; h < std::ssize(site.heads); ++h) names.push_back(site.head_name(h));
  PairMatrix overlaps = pair_matrix(names), angles = pair_matrix(names);
  for (int64_t a = 0; a < heads; ++a) {
    for (int64_t b = 0; b < heads; ++b) {
      const auto [low, high] = std::minmax({of(a), of(b)});
      overlaps.at(a, b) = relations[low * count + high].overlap;
      angles.at(a, b) = relations[low * count + high].angle;
    }
  }
  evidence.pairs["subspace_overlap/" + side][site.name] = std::move(overlaps);
  evidence.pairs["principal_angle/" + side][site.name] = std::move(angles);
}

void observe_layer(const AttentionSite& site, const MultiHeadAttention& layer, Evidence& evidence) {
  const MultiHeadAttentionShape& s = layer.shape();
  const auto weights = layer.weights();
  const Projections projections = projections_of(*weights);
  struct Numbers {
    double qk_rank = kNaN, ov_rank = kNaN, copying = kNaN;
  };
  std::vector<Numbers> heads(s.H);
  parallel_for(s.H, [&](int64_t h) {
    const int64_t kv = s.kv_of(h);
    if (h < s.learned()) {
      heads[h].qk_rank = rank_of_product(projections.query[h].space, projections.key[kv].space);
    }
    heads[h].ov_rank = rank_of_product(projections.value[kv].space, projections.output[h].space);
    heads[h].copying = copying(*weights, h);
  });
  for (int64_t h = 0; h < s.H; ++h) {
    Measures& measures = evidence.head(site.head_name(h)).measures;
    measures.add("qk_rank", {.value = heads[h].qk_rank});
    measures.add("ov_rank", {.value = heads[h].ov_rank});
    measures.add("copying", {.value = heads[h].copying});
  }
  const auto kv_of = [&](int64_t head) { return s.kv_of(head); };
  add_relations(site, "q", projections.query, s.learned(), std::identity(), evidence);
  add_relations(site, "k", projections.key, s.learned(), kv_of, evidence);
  add_relations(site, "v", projections.value, s.H, kv_of, evidence);
  add_relations(site, "o", projections.output, s.H, std::identity(), evidence);
}

/// The subspaces of one head by the letter of their projection.
std::map<std::string, Subspace> subspaces_of(const MultiHeadAttention& layer, int64_t head) {
  const MultiHeadAttentionShape& s = layer.shape();
  const auto weights = layer.weights();
  const MultiHeadAttentionWeights& w = *weights;
  const int64_t kv = s.kv_of(head);
  std::map<std::string, Subspace> spaces;
  const auto add = [&](const char* name, View<const float, 2> rows, int64_t at, int64_t width) {
    spaces.emplace(name, subspace_of(rows.rows(at * width, (at + 1) * width)));
  };
  if (head < s.learned()) {
    add("q", w.query(), head, s.D);
    add("k", w.key(), kv, s.D);
  }
  add("v", w.value(), kv, s.Dv);
  add("o", transposed(w.output()), head, s.Dv);
  return spaces;
}

}  // namespace

std::map<std::string, SubspaceRelation> compare_subspaces(const Model& model, HeadIndex a,
                                                          HeadIndex b) {
  const auto of_a = subspaces_of(model.layer(a.site), a.index);
  const auto of_b = subspaces_of(model.layer(b.site), b.index);
  std::map<std::string, SubspaceRelation> relations;
  for (const char* name : {"q", "k", "v", "o"}) {
    SubspaceRelation& relation = relations[name];
    const auto one = of_a.find(name), other = of_b.find(name);
    if (one == of_a.end() || other == of_b.end()) continue;
    if (one->second.space.basis.columns != other->second.space.basis.columns) continue;
    relation = relate(one->second, other->second);
  }
  return relations;
}

std::span<const std::string_view> weight_measures() {
  static constexpr std::string_view kNames[] = {
      "qk_rank", "ov_rank", "copying", "subspace_overlap", "principal_angle", "composition"};
  return kNames;
}

void observe_weights(const Model& model, uint64_t seed, Evidence& evidence) {
  const auto sites = model.attentions();
  for (int64_t i = 0; i < std::ssize(sites); ++i) observe_layer(sites[i], model.layer(i), evidence);
  observe_composition(model, seed, evidence);
}

}  // namespace headwise
