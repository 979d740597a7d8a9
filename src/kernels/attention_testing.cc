// How random attention problems are drawn.
#include "kernels/attention_testing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention_ref.h"

namespace headwise::tests {
namespace {

bool chance(Random& random, float p) { return random.uniform() < p; }

int64_t between(Random& random, int64_t low, int64_t high) {
  return low + random.below(static_cast<uint32_t>(high - low + 1));
}

template <class T>
T pick(Random& random, const std::vector<T>& choices) {
  return choices[random.below(static_cast<uint32_t>(choices.size()))];
}

/// Mostly short; some cross a block of 256 keys, a few two of them.
void draw_sizes(Random& random, uint64_t index, Spec& spec) {
  const int64_t longest = index % 40 == 7 ? 600 : index % 8 == 3 ? 300 : index % 3 == 0 ? 70 : 12;
  const int64_t shortest = longest == 600 ? 520 : 1;
  const int64_t count = longest > 70 ? between(random, 1, 2) : between(random, 1, 4);
  const bool square = chance(random, 0.5f);
  spec.sequences.clear();
  for (int64_t b = 0; b < count; ++b) {
    const int64_t keys = between(random, b == 0 ? shortest : 0, longest);
    const int64_t rows = square ? keys : between(random, 0, longest == 600 ? 20 : longest);
    spec.sequences.push_back({rows, keys});
  }
  const std::vector<int64_t> widths = {1, 2, 3, 5, 7, 8, 12, 16, 20, 24, 31, 32, 33, 48, 64, 80};
  spec.width = longest > 70 ? pick<int64_t>(random, {3, 8, 20, 32}) : pick(random, widths);
  if (longest <= 12 && chance(random, 0.25f)) {
    spec.width = pick<int64_t>(random, {96, 128, 129, 256, 300, 512});
  }
  spec.value_width = spec.width;
  if (chance(random, 0.25f)) spec.value_width = between(random, 1, longest > 70 ? 40 : 256);
}

void draw_heads(Random& random, Spec& spec) {
  spec.heads = pick<int64_t>(random, {1, 2, 3, 4, 6});
  std::vector<int64_t> divisors;
  for (int64_t n = 1; n <= spec.heads; ++n) {
    if (spec.heads % n == 0) divisors.push_back(n);
  }
  spec.kv_heads = chance(random, 0.5f) ? spec.heads : pick(random, divisors);
  if (spec.heads == 6 && chance(random, 0.5f)) {
    spec.kv_heads = 3;
    spec.kv_head = {0, 0, 0, 1, 2, 2};
  } else if (spec.heads == 4 && chance(random, 0.3f)) {
    spec.kv_heads = 5;  // one that nobody reads, and an order that is not ascending
    spec.kv_head = {4, 0, 2, 0};
  }
}

void draw_features(Random& random, Spec& spec) {
  spec.layout = pick<Layout>(random, {Layout::kPacked, Layout::kPacked, Layout::kFused,
                                      Layout::kHeadMajor, Layout::kSpread});
  spec.mask.causal = chance(random, 0.4f);
  if (chance(random, 0.3f)) spec.mask.left = pick<int64_t>(random, {0, 1, 5, 40, 270});
  if (chance(random, 0.2f)) spec.mask.right = pick<int64_t>(random, {0, 2, 33});
  if (chance(random, 0.3f)) spec.scale = pick<float>(random, {1.0f, 0.3f, -0.5f, 0.0f});
  if (chance(random, 0.25f)) spec.softcap = pick<float>(random, {0.5f, 3.0f, 50.0f});
  spec.alibi = chance(random, 0.25f);
  spec.table = chance(random, 0.25f);
  spec.padding = chance(random, 0.35f);
  spec.positions = chance(random, 0.2f);
  if (chance(random, 0.25f)) spec.dropout = pick<float>(random, {0.1f, 0.5f, 0.9f});
  if (chance(random, 0.25f)) spec.head_dropout = pick<float>(random, {0.3f, 0.5f, 1.0f});
  if (chance(random, 0.5f)) {
    spec.gates = pick<GateScope>(random, {GateScope::kHead, GateScope::kSequence, GateScope::kRow});
    spec.some_gates_zero = chance(random, 0.5f);
  }
  if (chance(random, 0.2f)) spec.mask.shift = pick<int64_t>(random, {-3, -1, 1, 20});
  if (chance(random, 0.15f)) spec.mask.first_keys = pick<int64_t>(random, {0, 1, 3, 50});
  spec.bias = chance(random, 0.25f);
  spec.shared_bias = chance(random, 0.5f);
  spec.sinks = chance(random, 0.2f);
}

/// NaN in the rows of every sequence past its length.
void poison(Array<float, 3>& array, const std::vector<int64_t>& offsets,
            const std::vector<int64_t>& lengths) {
  const View<float, 3> view = array.view();
  for (size_t b = 0; b < lengths.size(); ++b) {
    for (int64_t t = offsets[b] + lengths[b]; t < offsets[b + 1]; ++t) {
      for (int64_t h = 0; h < view.extent(1); ++h) {
        for (int64_t d = 0; d < view.extent(2); ++d) view(t, h, d) = kNaN;
      }
    }
  }
}

}  // namespace

std::string Spec::text() const {
  std::string all =
      fmt::format("seed {} H {} K {} D {} Dv {} [N,M]", seed, heads, kv_heads, width, value_width);
  for (const Lengths& s : sequences) all += fmt::format(" [{},{}]", s.rows, s.keys);
  if (!kv_head.empty()) all += fmt::format(" map {}", fmt::join(kv_head, ","));
  all += fmt::format(" layout {} causal {} left {} right {} shift {} first_keys {}",
                     static_cast<int>(layout), mask.causal, mask.left, mask.right, mask.shift,
                     mask.first_keys);
  if (scale) all += fmt::format(" scale {}", *scale);
  all += fmt::format(" softcap {} dropout {} head_dropout {}", softcap, dropout, head_dropout);
  if (alibi) all += " alibi";
  if (table) all += " table";
  if (padding) all += " padding";
  if (positions) all += " positions";
  if (bias) all += shared_bias ? " shared bias" : " bias";
  if (sinks) all += " sinks";
  if (gates) all += fmt::format(" gates {}", static_cast<int>(*gates));
  if (some_gates_zero) all += " some_gates_zero";
  return all;
}

Spec random_spec(uint64_t index) {
  Random random(20240609, index);
  Spec spec{.seed = index + 1};
  draw_sizes(random, index, spec);
  draw_heads(random, spec);
  draw_features(random, spec);
  return spec;
}

Problem::Problem(const Spec& given) : spec(given) {
  for (const Spec::Lengths& s : spec.sequences) {
    q_offsets.push_back(q_offsets.back() + s.rows);
    k_offsets.push_back(k_offsets.back() + s.keys);
  }
  Random random(spec.seed, 1);
  const auto value = [&] {
    const float x = random.normal();
    return spec.step == 0 ? x : std::round(x / spec.step) * spec.step;
  };
  q = Array<float, 3>({rows(), spec.heads, spec.width}, spec.layout);
  k = Array<float, 3>({keys(), spec.kv_heads, spec.width}, spec.layout);
  v = Array<float, 3>({keys(), spec.kv_heads, spec.value_width}, spec.layout);
  dout = Array<float, 3>({rows(), spec.heads, spec.value_width}, spec.layout);
  for (auto* array : {&q, &k, &v, &dout}) array->fill(value);
  if (spec.padding) draw_padding(random);
  if (spec.positions) {
    for (const Spec::Lengths& s : spec.sequences) {
      for (int64_t i = 0; i < s.rows; ++i) {
        positions.push_back(between(random, -3, s.keys + 3));
      }
    }
  }
  draw_bias(random);
  draw_gates(random);
  draw_dense_bias(random);
}

void Problem::draw_padding(Random& random) {
  for (const Spec::Lengths& s : spec.sequences) {
    q_lengths.push_back(between(random, 0, s.rows));
    k_lengths.push_back(chance(random, 0.2f) ? 0 : between(random, 0, s.keys));
  }
  poison(q, q_offsets, q_lengths);
  poison(dout, q_offsets, q_lengths);
  poison(k, k_offsets, k_lengths);
  poison(v, k_offsets, k_lengths);
}

void Problem::draw_bias(Random& random) {
  for (int64_t h = 0; h < spec.heads && spec.alibi; ++h) {
    slopes.push_back(std::ldexp(1.0f, -static_cast<int>(h) - 1));
  }
  if (!spec.table) return;
  const int64_t count = between(random, 1, 12), reach = between(random, 0, 20);
  table = Array<float, 2>({spec.heads, count});
  table.fill([&] {
    const float x = random.normal();
    return spec.step == 0 ? x : std::round(x / spec.step) * spec.step;
  });
  for (int64_t d = 0; d < 2 * reach + 1; ++d) {
    buckets.push_back(static_cast<int32_t>(between(random, 0, count - 1)));
  }
}

void Problem::draw_gates(Random& random) {
  if (!spec.gates) return;
  const int64_t count = *spec.gates == GateScope::kHead       ? 1
                        : *spec.gates == GateScope::kSequence ? std::ssize(spec.sequences)
                                                              : rows();
  gates = Array<float, 2>({count, spec.heads});
  gates.fill([&] {
    if (spec.some_gates_zero && chance(random, 0.4f)) return 0.0f;
    const float x = 2 * random.uniform() - 0.75f;
    return spec.step == 0 ? x : std::round(x / spec.step) * spec.step;
  });
}

void Problem::draw_dense_bias(Random& random) {
  const auto value = [&] {
    const float x = random.normal();
    return spec.step == 0 ? x : std::round(x / spec.step) * spec.step;
  };
  if (spec.bias) {
    int64_t most_rows = 0, most_keys = 0;
    for (const Spec::Lengths& s : spec.sequences) {
      most_rows = std::max(most_rows, s.rows);
      most_keys = std::max(most_keys, s.keys);
    }
    const int64_t sequences = spec.shared_bias ? 1 : std::ssize(spec.sequences);
    bias = Array<float, 4>({sequences, spec.heads, most_rows, most_keys});
    bias.fill(value);
  }
  if (spec.sinks) {
    sinks = Array<float, 1>({spec.heads});
    sinks.fill(value);
  }
}

Attention Problem::attention() const {
  Attention a{.q = q.view(), .k = k.view(), .v = v.view()};
  a.q_offsets = q_offsets;
  a.k_offsets = k_offsets;
  a.q_lengths = q_lengths;
  a.k_lengths = k_lengths;
  a.kv_head = spec.kv_head;
  a.positions = positions;
  a.mask = spec.mask;
  a.scale = spec.scale;
  a.softcap = spec.softcap;
  a.alibi_slopes = slopes;
  a.relative_bias = {.table = table.view(), .buckets = buckets};
  if (spec.bias) {
    const View<float, 4> own = bias.view();
    a.bias = {own.data(),
              {std::ssize(spec.sequences), own.extent(1), own.extent(2), own.extent(3)},
              {spec.shared_bias ? 0 : own.stride(0), own.stride(1), own.stride(2), own.stride(3)}};
  }
  if (spec.sinks) a.sinks = {sinks.view().data(), static_cast<size_t>(spec.heads)};
  a.dropout = spec.dropout;
  a.head_dropout = spec.head_dropout;
  a.seed = spec.seed;
  a.gates = gates.view();
  a.gate_scope = spec.gates.value_or(GateScope::kHead);
  return a;
}

Answers<double> solve_ref(const Attention& attention, View<const float, 3> dout,
                          const Options& options) {
  Answers<double> a(attention);
  attention_forward_ref(attention, a.out.view(), a.lse.view(), options.observer);
  attention_backward_ref(attention, dout,
                         {.dq = a.dq.view(),
                          .dk = a.dk.view(),
                          .dv = a.dv.view(),
                          .dgates = a.dgates.view(),
                          .dtable = a.dtable.view(),
                          .dbias = a.dbias.view(),
                          .dsinks = a.dsinks.view(),
                          .at_zero_gates = options.at_zero_gates});
  return a;
}

TestObserver::TestObserver(const Attention& attention, bool cross, uint64_t seed) {
  constexpr int64_t kSets = 2;
  Random random(seed, 2);
  const int64_t rows = attention.q.extent(0), heads = attention.q.extent(1);
  const int64_t keys = attention.k.extent(0);
  for (int64_t i = 0; i < kSets * keys; ++i) sets.push_back(chance(random, 0.3f) ? 3 : 0);
  for (int64_t i = 0; i < keys; ++i) left_out.push_back(chance(random, 0.4f));
  int64_t most_keys = 0, compared_rows = 0;
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t b = sequence_of(attention, t);
    const auto offsets = attention.k_offsets.empty() ? attention.q_offsets : attention.k_offsets;
    given.push_back(between(random, -1, offsets[b + 1] - offsets[b] - 1));
    most_keys = std::max(most_keys, offsets[b + 1] - offsets[b]);
    compared.push_back(chance(random, 0.3f) ? compared_rows++ : -1);
  }
  for (int64_t i = 0; i < compared_rows * most_keys; ++i) {
    numbers.push_back(chance(random, 0.2f) ? kNaN : 0.5f + random.uniform());
  }
  largest.assign(rows * heads, 77);
  largest_kept.assign(rows * heads, 77);
  given_weight.assign(rows * heads, 77);
  correlation.assign(compared_rows * heads, 77);
  observer.cross = cross;
  observer.key_sets = {sets.data(), {kSets, keys}};
  observer.given_key = given;
  observer.left_out = left_out;
  observer.largest = {largest.data(), {rows, heads}};
  observer.largest_kept = {largest_kept.data(), {rows, heads}};
  observer.given_weight = {given_weight.data(), {rows, heads}};
  observer.compared = compared;
  observer.compared_with = {numbers.data(), {compared_rows, most_keys}};
  observer.correlation = {correlation.data(), {compared_rows, heads}};
}

int64_t sequence_of(const Attention& attention, int64_t row) {
  int64_t b = 0;
  while (row >= attention.q_offsets[b + 1]) ++b;
  return b;
}

}  // namespace headwise::tests
