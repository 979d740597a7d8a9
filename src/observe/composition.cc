// Composition of all pairs of heads: inner products of quadratic forms, a strip of them at a time.
//
// For a row x of the residual stream, head a adds W_O W_V x to it (columns as vectors), and head b
// reads W_b of that. With P = (W_O W_V) (W_O W_V)' = W_O G W_O', G = W_V W_V', and S = W_b' W_b,
// both [C, C],
//   ‖W_b W_O W_V‖² = tr(S P) = Σ S(i, j) P(i, j)      ‖W_b‖² = tr S      ‖W_O W_V‖² = tr P
// A pair then costs C² / 2 products, instead of D² C. Forms are divided by their traces beforehand.
#include "observe/composition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <vector>

#include "core/linear_algebra.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/kernels/gemm.h"

namespace headwise {
namespace {

constexpr std::array kSides = {"composition/q", "composition/k", "composition/v"};

/// rows' weights rows, [C, C].
struct Form {
  View<const float, 2> rows{};  // [n, C]
  Buffer weights{};             // [n, n]
};

Form form_of(View<const float, 2> rows, const DoubleMatrix& weights, double trace) {
  Form form{.rows = rows, .weights = Buffer(weights.rows * weights.columns)};
  for (int64_t i = 0; i < form.weights.size(); ++i) {
    form.weights[i] = static_cast<float>(weights.values[i] / trace);
  }
  return form;
}

/// What a head writes.
struct Writer {
  int64_t head = 0;  // of the model
  CompositionShape shape{};
  Form form{};
};

/// What heads of one attention read with the same weights.
struct Reader {
  int64_t side = 0;              // of kSides
  std::vector<int64_t> heads{};  // of the model
  int64_t width = 0;             // of the head
  Form form{};
};

/// An attention that reads the stream, after so many heads have written to it.
struct Stop {
  int64_t earlier = 0;
  std::vector<Reader> readers{};
};

/// A residual stream: that of an encoder, or of a decoder.
struct Stream {
  std::vector<std::shared_ptr<const MultiHeadAttentionWeights>> weights{};  // that the forms read
  std::vector<Writer> writers{};
  std::vector<Stop> stops{};
};

Writer writer(const MultiHeadAttentionWeights& weights, int64_t first, int64_t head) {
  const MultiHeadAttentionShape& s = weights.shape();
  const int64_t kv = s.kv_of(head);
  const DoubleMatrix value(weights.value().rows(kv * s.Dv, (kv + 1) * s.Dv));
  const View<const float, 2> output =
      transposed(weights.output()).rows(head * s.Dv, (head + 1) * s.Dv);
  const DoubleMatrix rows(output), gram = product_with_transposed(value, value);
  const double trace = inner_product(gram, product_with_transposed(rows, rows));
  return {.head = first + head,
          .shape = {.width = s.C, .source = s.Cs, .values = s.Dv},
          .form = form_of(output, gram, trace)};
}

Reader reader(View<const float, 2> weights, int64_t side, int64_t index, int64_t width) {
  const View<const float, 2> rows = weights.rows(index * width, (index + 1) * width);
  const DoubleMatrix exact(rows);
  DoubleMatrix identity(width, width);
  for (int64_t i = 0; i < width; ++i) identity(i, i) = 1;
  return {
      .side = side, .width = width, .form = form_of(rows, identity, inner_product(exact, exact))};
}

/// The queries of an attention, its keys and values, or all three.
Stop stop(const MultiHeadAttentionWeights& w, const AttentionSite& site, int64_t earlier,
          bool queries, bool source) {
  const MultiHeadAttentionShape& s = w.shape();
  Stop stop{.earlier = earlier};
  const auto add = [&](View<const float, 2> weights, int64_t side, int64_t count, int64_t width,
                       int64_t heads, const auto& reads) {
    for (int64_t i = 0; i < count; ++i) {
      Reader one = reader(weights, side, i, width);
      for (int64_t h = 0; h < heads; ++h) {
        if (reads(h) == i) one.heads.push_back(site.first + h);
      }
      if (!one.heads.empty()) stop.readers.push_back(std::move(one));
    }
  };
  const auto kv = [&](int64_t head) { return s.kv_of(head); };
  if (queries) add(w.query(), 0, s.learned(), s.D, s.learned(), std::identity());
  if (source) add(w.key(), 1, s.key_heads, s.D, s.learned(), kv);
  if (source) add(w.value(), 2, s.K, s.Dv, s.H, kv);
  return stop;
}

/// The streams of a model. A cross attention asks the stream of the decoder, after the self
/// attention of its layer, and reads what the encoder's has become.
std::vector<Stream> streams_of(const Model& model) {
  std::vector<Stream> streams(2);
  const auto pass = [&](Stream& stream, int64_t index) {
    const AttentionSite& site = model.attentions()[index];
    const auto& weights = stream.weights.emplace_back(model.layer(index).weights());
    stream.stops.push_back(
        stop(*weights, site, std::ssize(stream.writers), true, site.kind == AttentionKind::self));
    const auto before = std::ssize(stream.writers);
    stream.writers.resize(before + weights->shape().H);
    parallel_for(weights->shape().H,
                 [&](int64_t h) { stream.writers[before + h] = writer(*weights, site.first, h); });
  };
  const auto sites = model.attentions();
  std::vector<int64_t> order(sites.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::ranges::stable_sort(order, {}, [&](int64_t i) { return sites[i].layer; });
  for (const int64_t i : order) pass(streams[sites[i].side == Side::decoder], i);
  for (const int64_t i : order) {
    if (sites[i].kind == AttentionKind::self) continue;
    const auto& weights = streams[0].weights.emplace_back(model.layer(i).weights());
    streams[0].stops.push_back(
        stop(*weights, sites[i], std::ssize(streams[0].writers), false, true));
  }
  return streams;
}

/// Rows [begin, end) of a form, from column `begin` on. The rest of these rows is known from the
/// strips before, since forms are symmetric.
struct Strip {
  int64_t begin = 0, end = 0, width = 0;
  int64_t rows() const { return end - begin; }
  int64_t columns() const { return width - begin; }
};

void fill(const Form& form, const Strip& strip, float* to) {
  const int64_t n = form.rows.extent(0);
  const View<const float, 2> rows = form.rows;
  const View<const float, 2> right(rows.data() + strip.begin * rows.stride(1), {n, strip.columns()},
                                   rows.strides());
  const Buffer left(strip.rows() * n);
  const View<float, 2> weighted = left.view({strip.rows(), n});
  gemm(transposed(right).rows(0, strip.rows()), form.weights.view({n, n}), weighted);
  gemm(weighted, right, View<float, 2>(to, {strip.rows(), strip.columns()}));
  // What lies beyond the square counts for (i, j) and (j, i), in a product of two forms.
  constexpr auto kRoot = std::numbers::sqrt2_v<float>;
  for (int64_t i = 0; i < strip.rows(); ++i) {
    float* const row = to + i * strip.columns();
    for (int64_t j = strip.rows(); j < strip.columns(); ++j) row[j] *= kRoot;
  }
}

/// Inner products of the forms of a stream: for each stop [earlier, readers], one after the other.
class StreamProducts {
 public:
  explicit StreamProducts(const Stream& stream) : stream_(stream) {
    for (const Writer& one : stream.writers) forms_.push_back(&one.form);
    for (const Stop& one : stream.stops) {
      first_.push_back(std::ssize(forms_));
      for (const Reader& reader : one.readers) forms_.push_back(&reader.form);
      values_.emplace_back(one.earlier * std::ssize(one.readers));
    }
    if (stream.writers.empty()) return;
    // About 64 MB of strips, but none too thin for the products.
    const int64_t width = stream.writers.front().shape.width;
    const int64_t room = (int64_t{1} << 24) / (std::ssize(forms_) * width);
    const int64_t most = std::clamp<int64_t>(room / 12 * 12, 12, 60);
    for (int64_t begin = 0; begin < width; begin += most) {
      add({.begin = begin, .end = std::min(begin + most, width), .width = width});
    }
  }

  double at(int64_t stop, int64_t writer, int64_t reader) const {
    return values_[stop][writer * std::ssize(stream_.stops[stop].readers) + reader];
  }

 private:
  void add(const Strip& strip) {
    const int64_t count = std::ssize(forms_), size = strip.rows() * strip.columns();
    const View<float, 2> strips(strips_.at_least(count * size), {count, size});
    parallel_for(count, [&](int64_t i) { fill(*forms_[i], strip, &strips(i, 0)); });
    parallel_for(std::ssize(stream_.stops), [&](int64_t i) { multiply(i, strips); });
  }

  void multiply(int64_t i, View<const float, 2> strips) {
    const int64_t earlier = stream_.stops[i].earlier, first = first_[i];
    const int64_t readers = std::ssize(stream_.stops[i].readers);
    const Buffer products(earlier * readers);
    gemm(strips.rows(0, earlier), transposed(strips.rows(first, first + readers)),
         products.view({earlier, readers}));
    for (int64_t k = 0; k < products.size(); ++k) values_[i][k] += products[k];
  }

  const Stream& stream_;
  std::vector<const Form*> forms_;  // of writers, then of readers by stops
  std::vector<int64_t> first_;      // [stops]: where its readers begin
  std::vector<std::vector<double>> values_;
  Buffer strips_;
};

DoubleMatrix normal_matrix(int64_t rows, int64_t columns, Random& random) {
  DoubleMatrix matrix(rows, columns);
  for (double& value : matrix.values) value = random.normal();
  return matrix;
}

/// The ratio r for one draw.
double draw_composition(const CompositionShape& s, Random random) {
  const DoubleMatrix value = normal_matrix(s.values, s.source, random);
  const DoubleMatrix output = normal_matrix(s.values, s.width, random);
  const DoubleMatrix read = normal_matrix(s.reads, s.width, random);
  const DoubleMatrix gram = product_with_transposed(value, value);
  const DoubleMatrix both = product_with_transposed(output, read);
  return std::sqrt(inner_product(both, product(gram, both)) / inner_product(read, read) /
                   inner_product(gram, product_with_transposed(output, output)));
}

}  // namespace

double random_composition(const CompositionShape& s, uint64_t seed) {
  // The direction of W_b is uniform, so the mean of r² is 1 / C exactly, whatever the other shapes.
  // That of r is a little smaller, and drawn: r - (r² - 1 / C) √C / 2 has the same mean, and
  // differs from it in second order only. Matrices of many numbers spread little and need few
  // draws.
  constexpr int64_t kNumbers = 2'000'000;
  const int64_t numbers = s.values * (s.source + s.width) + s.reads * s.width;
  const int64_t draws = std::max<int64_t>(8, kNumbers / numbers);
  const auto C = static_cast<double>(s.width);
  const uint64_t of_shape =
      derived_seed(seed, static_cast<uint64_t>(s.values * s.source + s.reads), 0, 0xc0390);
  std::vector<double> values(static_cast<size_t>(draws));
  parallel_for(draws, [&](int64_t i) {
    const double r = draw_composition(s, Random(of_shape, static_cast<uint64_t>(i)));
    values[i] = r - (r * r - 1 / C) * std::sqrt(C) / 2;
  });
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(draws);
}

void observe_composition(const Model& model, uint64_t seed, Evidence& evidence) {
  std::vector<std::string> names;
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) names.push_back(site.head_name(h));
  }
  for (const char* side : kSides) evidence.pairs[side]["all"] = pair_matrix(names);
  std::map<CompositionShape, double> random;
  for (const Stream& stream : streams_of(model)) {
    const StreamProducts products(stream);
    for (int64_t i = 0; i < std::ssize(stream.stops); ++i) {
      for (int64_t r = 0; r < std::ssize(stream.stops[i].readers); ++r) {
        const Reader& reader = stream.stops[i].readers[r];
        PairMatrix& matrix = evidence.pairs[kSides[reader.side]]["all"];
        for (int64_t w = 0; w < stream.stops[i].earlier; ++w) {
          CompositionShape shape = stream.writers[w].shape;
          shape.reads = reader.width;
          const auto [mean, is_new] = random.try_emplace(shape, 0);
          if (is_new) mean->second = random_composition(shape, seed);
          const double value = std::sqrt(std::max(products.at(i, w, r), 0.)) - mean->second;
          for (const int64_t b : reader.heads) matrix.at(stream.writers[w].head, b) = value;
        }
      }
    }
  }
  for (const char* side : kSides) {  // of one layer, nobody reads another
    const bool none = std::ranges::all_of(evidence.pairs[side]["all"].values,
                                          [](double value) { return std::isnan(value); });
    if (none) evidence.pairs.erase(side);
  }
}

}  // namespace headwise
