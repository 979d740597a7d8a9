// Attention problems for tests: described in a line, filled at random, solved by kernel and
// reference.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "headwise/core/random.h"
#include "headwise/kernels/attention.h"

namespace headwise::tests {

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// How the rows, heads and elements of an array lie in memory.
enum class Layout { kPacked, kFused, kHeadMajor, kSpread };

/// An array that owns its memory; the gaps its layout leaves hold NaN, which nobody may read or
/// write.
template <class T, int R>
class Array {
 public:
  Array() = default;
  explicit Array(std::array<int64_t, R> shape, Layout layout = Layout::kPacked) {
    std::array<ptrdiff_t, R> strides;
    const ptrdiff_t element = layout == Layout::kSpread ? 2 : 1;
    ptrdiff_t stride = element;
    for (int r = R; r-- > 0; stride *= shape[r]) strides[r] = stride;
    if (layout == Layout::kFused) strides[0] = 3 * strides[0] + 5;
    if (layout == Layout::kHeadMajor && R == 3) {
      strides[0] = shape[2];
      strides[1] = shape[0] * shape[2];
    }
    int64_t size = 1;
    for (int r = 0; r < R; ++r) size = shape[r] == 0 ? 0 : size + (shape[r] - 1) * strides[r];
    for (int r = 0; r < R; ++r) size = shape[r] == 0 ? 0 : size;
    data_.assign(size, std::numeric_limits<T>::quiet_NaN());
    view_ = View<T, R>(data_.data(), shape, strides);
    fill([] { return T{0}; });
  }
  Array(Array&&) = default;
  Array& operator=(Array&&) = default;

  View<T, R> view() const { return view_; }
  std::vector<T>& data() { return data_; }

  /// In row-major order of the shape, whatever the layout.
  template <class Make>
  void fill(Make make) {
    each([&](T& x) { x = static_cast<T>(make()); });
  }
  std::vector<T> values() const {
    std::vector<T> all;
    each([&](T& x) { all.push_back(x); });
    return all;
  }
  /// How many of the gaps are still NaN, and how many there are.
  bool gaps_untouched() const {
    int64_t gaps = 0, elements = 1;
    std::vector<T> rest = data_;
    each([&](T& x) { rest[&x - data_.data()] = 0; });
    for (const T x : rest) gaps += x != x;
    for (const int64_t n : view_.shape()) elements *= n;
    return gaps + elements == static_cast<int64_t>(data_.size());
  }

 private:
  template <class Visit>
  void each(Visit visit) const {
    if (view_.empty()) return;
    std::array<int64_t, R> at{};
    for (;;) {
      ptrdiff_t offset = 0;
      for (int r = 0; r < R; ++r) offset += at[r] * view_.stride(r);
      visit(view_.data()[offset]);
      int r = R - 1;
      while (r >= 0 && ++at[r] == view_.extent(r)) at[r--] = 0;
      if (r < 0) return;
    }
  }

  std::vector<T> data_;
  View<T, R> view_;
};

/// What a problem is like; everything else about it is drawn from `seed`.
struct Spec {
  struct Lengths {
    int64_t rows, keys;
  };
  std::vector<Lengths> sequences = {{5, 5}};
  int64_t heads = 2, kv_heads = 2, width = 8, value_width = 8;
  std::vector<int32_t> kv_head;
  Layout layout = Layout::kPacked;
  AttentionMask mask;
  std::optional<float> scale;
  float softcap = 0, dropout = 0, head_dropout = 0;
  bool alibi = false, table = false, padding = false, positions = false;
  bool bias = false, shared_bias = false;  // shared: between the sequences
  bool sinks = false;
  std::optional<GateScope> gates;
  bool some_gates_zero = false;
  uint64_t seed = 1;
  float step = 0;  // values are multiples of it; 0: any float

  std::string text() const;
};

/// Draws the shape, the features and their combination; number `index` of an endless list.
Spec random_spec(uint64_t index);

/// A spec made flesh. Padding rows, keys and values hold NaN.
class Problem {
 public:
  explicit Problem(const Spec& spec);
  Problem(Problem&&) = default;

  /// The attention problem, looking into this object.
  Attention attention() const;
  int64_t rows() const { return q_offsets.back(); }
  int64_t keys() const { return k_offsets.back(); }

  Spec spec;
  Array<float, 3> q, k, v, dout;
  Array<float, 2> gates, table;
  Array<float, 4> bias;
  Array<float, 1> sinks;
  std::vector<int64_t> q_offsets{0}, k_offsets{0}, q_lengths, k_lengths, positions;
  std::vector<float> slopes;
  std::vector<int32_t> buckets;

 private:
  void draw_padding(Random& random);
  void draw_bias(Random& random);
  void draw_gates(Random& random);
  void draw_dense_bias(Random& random);
};

/// Everything that comes out of forward and backward.
template <class T>
struct Answers {
  Array<T, 3> out, dq, dk, dv;
  Array<T, 2> lse, dgates, dtable;
  Array<T, 4> dbias;
  Array<T, 1> dsinks;

  explicit Answers(const Attention& attention, Layout layout = Layout::kPacked)
      : out({attention.q.extent(0), attention.q.extent(1), attention.v.extent(2)}, layout),
        dq(attention.q.shape(), layout),
        dk(attention.k.shape(), layout),
        dv(attention.v.shape(), layout),
        lse({attention.q.extent(0), attention.q.extent(1)}),
        dgates(attention.gates.shape()),
        dtable(attention.relative_bias.table.shape()),
        dbias(attention.bias.shape()),
        dsinks({std::ssize(attention.sinks)}) {}
};

struct Options {
  bool at_zero_gates = false;
  Layout layout = Layout::kPacked;
  AttentionObserver* observer = nullptr;
};

Answers<double> solve_ref(const Attention& attention, View<const float, 3> dout,
                          const Options& options = {});
/// Inline, so that the reference and its own tests do not need the kernels.
inline Answers<float> solve(const Attention& attention, View<const float, 3> dout,
                            const Options& options = {}) {
  Answers<float> a(attention, options.layout);
  const auto forget = [](auto&... arrays) {  // all of it is to be overwritten
    (arrays.fill([] { return std::numeric_limits<float>::quiet_NaN(); }), ...);
  };
  forget(a.out, a.lse, a.dq, a.dk, a.dv, a.dgates, a.dtable, a.dbias, a.dsinks);
  attention_forward(attention, a.out.view(), a.lse.view(), options.observer);
  attention_backward(attention, a.out.view(), a.lse.view(), dout,
                     {.dq = a.dq.view(),
                      .dk = a.dk.view(),
                      .dv = a.dv.view(),
                      .dgates = a.dgates.view(),
                      .dtable = a.dtable.view(),
                      .dbias = a.dbias.view(),
                      .dsinks = a.dsinks.data(),
                      .at_zero_gates = options.at_zero_gates});
  return a;
}

/// Storage for what an observer is given and fills; `observer` looks into this object.
struct TestObserver {
  TestObserver(const Attention& attention, bool cross, uint64_t seed);
  TestObserver(const TestObserver&) = delete;

  std::vector<uint8_t> sets, left_out;
  std::vector<int64_t> given, compared;
  std::vector<float> numbers;
  std::vector<int32_t> largest, largest_kept;
  std::vector<float> given_weight, correlation;
  AttentionObserver observer;
};

/// Which sequence a row is in.
int64_t sequence_of(const Attention& attention, int64_t row);

}  // namespace headwise::tests
