// Every bad input to attention is refused with what is wrong, what was got and what was expected.
#include <gtest/gtest.h>

#include <functional>

#include "headwise/core/error.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

/// A sound problem whose lists a test can spoil.
struct Sound {
  Problem problem{Spec{.sequences = {{3, 3}, {4, 4}}, .heads = 4, .kv_heads = 2}};
  Attention attention = problem.attention();
  std::vector<int64_t> longs;
  std::vector<int32_t> ints;
  std::vector<float> floats;
};

void expect_refused(const std::string& what, const std::function<void()>& call) {
  SCOPED_TRACE(what);
  try {
    call();
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_TRUE(error.detail().what.starts_with("attention")) << error.what();
    EXPECT_FALSE(error.detail().got.empty()) << error.what();
    EXPECT_FALSE(error.detail().expected.empty()) << error.what();
  }
}

/// Forward, backward and maps all refuse it.
void expect_spoilt(const std::string& what, const std::function<void(Sound&)>& spoil) {
  Sound sound;
  Answers<float> a(sound.attention);
  spoil(sound);
  expect_refused("forward: " + what,
                 [&] { attention_forward(sound.attention, a.out.view(), a.lse.view()); });
  expect_refused("backward: " + what, [&] {
    attention_backward(sound.attention, a.out.view(), a.lse.view(), sound.problem.dout.view(),
                       {.dq = a.dq.view()});
  });
  expect_refused("maps: " + what,
                 [&] { attention_maps(sound.attention, std::vector<int64_t>{0}); });
}

TEST(AttentionErrors, TheSoundProblemIsAccepted) {
  Sound sound;
  Answers<float> a(sound.attention);
  EXPECT_NO_THROW(attention_forward(sound.attention, a.out.view(), a.lse.view()));
}

TEST(AttentionErrors, Heads) {
  expect_spoilt("4 heads over 3 key/value heads", [](Sound& s) {
    s.floats.assign(7 * 3 * 8, 0);
    s.attention.k = s.attention.v = {s.floats.data(), {7, 3, 8}};
  });
  expect_spoilt("a map to a head that is not there", [](Sound& s) {
    s.ints = {0, 1, 2, 1};
    s.attention.kv_head = s.ints;
  });
  expect_spoilt("a map to a negative head", [](Sound& s) {
    s.ints = {0, 1, -1, 1};
    s.attention.kv_head = s.ints;
  });
  expect_spoilt("a map of 3 for 4 heads", [](Sound& s) {
    s.ints = {0, 1, 1};
    s.attention.kv_head = s.ints;
  });
}

TEST(AttentionErrors, Offsets) {
  const std::vector<std::pair<std::string, std::vector<int64_t>>> bad = {
      {"descending", {0, 5, 3, 7}}, {"short of the rows", {0, 3, 6}}, {"past the rows", {0, 3, 8}},
      {"not from 0", {1, 3, 7}},    {"negative", {0, -1, 7}},         {"empty", {}}};
  for (const auto& [what, offsets] : bad) {
    expect_spoilt("query offsets " + what, [&](Sound& s) { s.attention.q_offsets = offsets; });
    if (offsets.empty()) continue;
    expect_spoilt("key offsets " + what, [&](Sound& s) { s.attention.k_offsets = offsets; });
  }
  expect_spoilt("key offsets of another batch", [](Sound& s) {
    s.longs = {0, 2, 4, 7};
    s.attention.k_offsets = s.longs;
  });
}

TEST(AttentionErrors, LengthsAndPositions) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{3, 5}, {-1, 4}, {3}, {3, 4, 1}}) {
    expect_spoilt("query lengths", [&](Sound& s) { s.attention.q_lengths = lengths; });
    expect_spoilt("key lengths", [&](Sound& s) { s.attention.k_lengths = lengths; });
  }
  expect_spoilt("6 positions for 7 rows", [](Sound& s) {
    s.longs = {0, 1, 2, 0, 1, 2};
    s.attention.positions = s.longs;
  });
}

TEST(AttentionErrors, Shapes) {
  const auto resized = [](Sound& s, View<const float, 3>& view, std::array<int64_t, 3> shape) {
    s.floats.assign(shape[0] * shape[1] * shape[2] + 1, 0);
    view = {s.floats.data(), shape};
  };
  expect_spoilt("keys of another width", [&](Sound& s) { resized(s, s.attention.k, {7, 2, 9}); });
  expect_spoilt("no numbers", [&](Sound& s) { s.attention.q = {nullptr, {7, 4, 8}}; });
  expect_spoilt("values of other heads", [&](Sound& s) { resized(s, s.attention.v, {7, 1, 8}); });
  expect_spoilt("values of other rows", [&](Sound& s) { resized(s, s.attention.v, {6, 2, 8}); });
  for (const int64_t width : {0, 8193}) {
    expect_spoilt("a width of " + std::to_string(width), [&](Sound& s) {
      s.floats.assign(7 * 4 * 8193, 0);
      s.attention.q = {s.floats.data(), {7, 4, width}};
      s.attention.k = {s.floats.data(), {7, 2, width}};
    });
    expect_spoilt("a value width of " + std::to_string(width), [&](Sound& s) {
      s.floats.assign(7 * 2 * 8193, 0);
      s.attention.v = {s.floats.data(), {7, 2, width}};
    });
  }
}

TEST(AttentionErrors, BiasAndSinks) {
  const auto biased = [](const std::string& what, std::array<int64_t, 4> shape,
                         ptrdiff_t last = 1) {
    expect_spoilt(what, [&](Sound& s) {
      s.floats.assign(shape[0] * shape[1] * shape[2] * shape[3] * last, 0);
      const ptrdiff_t row = shape[3] * last;
      s.attention.bias = {
          s.floats.data(), shape, {shape[1] * shape[2] * row, shape[2] * row, row, last}};
    });
  };
  biased("a bias of other sequences", {1, 4, 4, 4});
  biased("a bias of other heads", {2, 2, 4, 4});
  biased("a bias of too few rows", {2, 4, 3, 4});
  biased("a bias of too few keys", {2, 4, 4, 3});
  biased("a bias with gaps", {2, 4, 4, 4}, 2);
  for (const std::vector<float>& sinks :
       {std::vector<float>{1, 2, 3}, {1, 2, 3, kInf}, {1, 2, kNaN, 4}}) {
    expect_spoilt("sinks", [&](Sound& s) { s.attention.sinks = sinks; });
  }
}

TEST(AttentionErrors, GradientsOfBiasAndSinks) {
  const Problem problem({.sequences = {{3, 3}, {4, 4}}, .bias = true, .sinks = true});
  const Attention attention = problem.attention();
  Answers<float> a(attention);
  const auto backward = [&](const std::string& what, const AttentionGradients& gradients) {
    expect_refused(what, [&] {
      attention_backward(attention, a.out.view(), a.lse.view(), problem.dout.view(), gradients);
    });
  };
  std::vector<float> floats(2 * 2 * 4 * 4);
  backward("a shared dbias", {.dbias = {floats.data(), {2, 2, 4, 4}, {0, 16, 4, 1}}});
  backward("a dbias with gaps", {.dbias = {floats.data(), {2, 2, 4, 4}, {32, 16, 1, 4}}});
  backward("a dbias of other rows", {.dbias = {floats.data(), {2, 2, 3, 4}}});
  backward("3 dsinks", {.dsinks = std::span(floats).first(3)});
  Array<double, 2> js({2, 2});
  expect_refused("divergences of sinks", [&] { attention_js(attention, a.lse.view(), js.view()); });
}

TEST(AttentionErrors, OutputShapes) {
  Sound s;
  Answers<float> a(s.attention);
  const Array<float, 3> small({7, 4, 7}), few({6, 4, 8});
  const Array<float, 2> narrow({7, 3});
  expect_refused("out", [&] { attention_forward(s.attention, small.view()); });
  expect_refused("out", [&] { attention_forward(s.attention, few.view()); });
  expect_refused("lse", [&] { attention_forward(s.attention, a.out.view(), narrow.view()); });
  const auto backward = [&](View<const float, 3> dout, const AttentionGradients& gradients) {
    attention_backward(s.attention, a.out.view(), a.lse.view(), dout, gradients);
  };
  const View<float, 3> dout = s.problem.dout.view();
  expect_refused("dout", [&] { backward(few.view(), {.dq = a.dq.view()}); });
  expect_refused("dq", [&] { backward(dout, {.dq = few.view()}); });
  expect_refused("dk", [&] { backward(dout, {.dk = few.view()}); });
  expect_refused("dv", [&] { backward(dout, {.dv = few.view()}); });
  expect_refused("dgates without gates", [&] { backward(dout, {.dgates = narrow.view()}); });
  expect_refused("dtable without a table", [&] { backward(dout, {.dtable = narrow.view()}); });
}

TEST(AttentionErrors, Gates) {
  const auto gates = [](Sound& s, std::array<int64_t, 2> shape, GateScope scope) {
    s.floats.assign(shape[0] * shape[1], 1);
    s.attention.gates = {s.floats.data(), shape};
    s.attention.gate_scope = scope;
  };
  expect_spoilt("3 gates", [&](Sound& s) { gates(s, {1, 3}, GateScope::kHead); });
  expect_spoilt("2 rows per head", [&](Sound& s) { gates(s, {2, 4}, GateScope::kHead); });
  expect_spoilt("1 row per sequence", [&](Sound& s) { gates(s, {1, 4}, GateScope::kSequence); });
  expect_spoilt("2 rows per row", [&](Sound& s) { gates(s, {2, 4}, GateScope::kRow); });
  expect_spoilt("a gate that is no number", [&](Sound& s) {
    gates(s, {1, 4}, GateScope::kHead);
    s.floats[2] = kNaN;
  });
  expect_spoilt("an infinite gate", [&](Sound& s) {
    gates(s, {1, 4}, GateScope::kHead);
    s.floats[2] = kInf;
  });
}

TEST(AttentionErrors, Numbers) {
  for (const float p : {-0.1f, 1.0f, 1.5f, kNaN}) {
    expect_spoilt("dropout", [&](Sound& s) { s.attention.dropout = p; });
  }
  for (const float p : {-0.1f, 1.5f, kNaN}) {
    expect_spoilt("head dropout", [&](Sound& s) { s.attention.head_dropout = p; });
  }
  for (const float cap : {-1.0f, kNaN, kInf}) {
    expect_spoilt("softcap", [&](Sound& s) { s.attention.softcap = cap; });
  }
  for (const float scale : {kNaN, kInf}) {
    expect_spoilt("scale", [&](Sound& s) { s.attention.scale = scale; });
  }
  expect_spoilt("left of -2", [](Sound& s) { s.attention.mask.left = -2; });
  expect_spoilt("right of -2", [](Sound& s) { s.attention.mask.right = -2; });
  expect_spoilt("first keys of -2", [](Sound& s) { s.attention.mask.first_keys = -2; });
  expect_spoilt("far shift", [](Sound& s) { s.attention.mask.shift = int64_t{1} << 40; });
}

TEST(AttentionErrors, Biases) {
  expect_spoilt("3 slopes for 4 heads", [](Sound& s) {
    s.floats.assign(3, 0.5f);
    s.attention.alibi_slopes = s.floats;
  });
  const auto table = [](Sound& s, int64_t heads, std::vector<int32_t> buckets) {
    s.floats.assign(heads * 5, 0);
    s.ints = std::move(buckets);
    s.attention.relative_bias = {.table = {s.floats.data(), {heads, 5}}, .buckets = s.ints};
  };
  expect_spoilt("an even number of buckets", [&](Sound& s) { table(s, 4, {0, 1, 2, 3}); });
  expect_spoilt("no buckets", [&](Sound& s) { table(s, 4, {}); });
  expect_spoilt("a bucket past the table", [&](Sound& s) { table(s, 4, {0, 1, 5}); });
  expect_spoilt("a negative bucket", [&](Sound& s) { table(s, 4, {0, -1, 4}); });
  expect_spoilt("a table of 3 heads", [&](Sound& s) { table(s, 3, {0, 1, 4}); });
}

TEST(AttentionErrors, Maps) {
  Sound s;
  for (const int64_t row : {-1, 7}) {
    expect_refused("row " + std::to_string(row), [&] {
      attention_maps(s.attention, std::vector<int64_t>{0, row});
    });
  }
}

TEST(AttentionErrors, Observer) {
  const auto observed = [](const std::string& what,
                           const std::function<void(TestObserver&)>& spoil) {
    Sound s;
    TestObserver test_observer(s.attention, false, 1);
    spoil(test_observer);
    Answers<float> a(s.attention);
    expect_refused(
        what, [&] { attention_forward(s.attention, a.out.view(), {}, &test_observer.observer); });
  };
  observed("3 heads", [](TestObserver& w) { w.observer.heads.resize(3); });
  observed("key sets", [](TestObserver& w) { w.observer.key_sets = {w.sets.data(), {2, 6}}; });
  observed("a given key past its sequence", [](TestObserver& w) { w.given[1] = 3; });
  observed("a given key below none", [](TestObserver& w) { w.given[1] = -2; });
  observed("given keys",
           [](TestObserver& w) { w.observer.given_key = w.observer.given_key.first(6); });
  observed("compared rows",
           [](TestObserver& w) { w.observer.compared = w.observer.compared.first(6); });
  observed("no numbers for a compared row", [](TestObserver& w) { w.compared[3] = 7; });
  observed("no numbers for a compared row", [](TestObserver& w) { w.compared[3] = -2; });
  observed("no numbers for a compared row",
           [](TestObserver& w) { w.compared[0] = w.compared[1] = 0; });
  observed("compared_with", [](TestObserver& w) {
    w.observer.compared_with = {nullptr, w.observer.compared_with.shape()};
  });
  observed("correlation", [](TestObserver& w) {
    w.observer.correlation = {w.correlation.data(), {w.observer.compared_with.extent(0), 3}};
  });
  observed("left out", [](TestObserver& w) { w.observer.left_out = w.observer.left_out.first(6); });
  observed("largest", [](TestObserver& w) { w.observer.largest = {w.largest.data(), {7, 3}}; });
  observed("largest kept", [](TestObserver& w) {
    w.observer.largest_kept = {w.largest.data(), {6, 4}};
  });
  observed("given weight", [](TestObserver& w) {
    w.observer.given_weight = {w.given_weight.data(), {7, 3}};
  });
}

TEST(AttentionErrors, Divergences) {
  Sound s;
  Answers<float> a(s.attention);
  const Array<double, 2> narrow({3, 4}), right({4, 4});
  const Array<float, 2> few({6, 4});
  expect_refused("sums", [&] { attention_js(s.attention, a.lse.view(), narrow.view()); });
  expect_refused("lse", [&] { attention_js(s.attention, few.view(), right.view()); });
}

}  // namespace
}  // namespace headwise::tests
