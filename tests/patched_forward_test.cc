// Variants that are run together from where they differ, against one pass each with gates, or with
// an observer that changes what heads say: every architecture, every head.
#include "model/patched_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/model/model.h"
#include "model/stack_layout.h"
#include "texts_testing.h"

namespace headwise {
namespace {

/// The largest difference that float32 may make, relative to the largest value.
constexpr double kVariantTolerance = 2e-5;

std::vector<std::string> models() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_model(""))) {
    const std::string name = entry.path().filename().string();
    // The architectures themselves, and what differs in its blocks.
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    for (const char* other :
         {"_sequence", "_token", "_question", "_plain", "_version_4", "_copies", "_half",
          "sentence_", "_untied", "_of_2018", "_label", "regression"}) {
      if (name.find(other) != std::string::npos) goto next;
    }
    names.push_back(name);
  next:;
  }
  std::ranges::sort(names);
  return names;
}

/// Changes what heads say in all texts.
class Changed : public ForwardObserver {
 public:
  explicit Changed(const Variant& variant) : variant_(variant) {}
  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2>) override {
    for (const ActivationPatch& patch : variant_) {
      const int64_t h = patch.head - site.first;
      if (h < 0 || h >= std::ssize(site.heads)) continue;
      for (int64_t t = 0; t < z.extent(0); ++t) std::ranges::copy(patch.output, &z(t, h, 0));
    }
  }

 private:
  const Variant& variant_;
};

class Variants : public testing::TestWithParam<std::string> {
 protected:
  Variants()
      : model_(load(golden_model(GetParam()))),
        source_(texts_of(model_.config().vocabulary, {5, 1, 9, 0, 4}, 1)) {
    if (model_.config().encoder_decoder()) {
      target_ = texts_of(model_.config().decoder_vocabulary, {3, 7, 1, 2, 6}, 50);
    }
    for (int i = 0; i < 64; ++i) constant_.push_back(static_cast<float>(i * 13 % 7) / 7 - 0.4f);
    zeros_.resize(64);
  }

  Activations run(const ForwardOptions& options) const {
    return target_.sequences() > 0 ? model_.forward(source_, target_, options)
                                   : model_.forward(source_, options);
  }
  const TokenBatch& last() const { return target_.sequences() > 0 ? target_ : source_; }

  std::span<const float> output(int64_t head, bool zero) const {
    const AttentionSite* const site = site_of_head(model_.attentions(), head);
    return std::span(zero ? zeros_ : constant_).first(site == nullptr ? 0 : site->value_dim);
  }

  std::vector<int64_t> all_rows() const {
    std::vector<int64_t> rows(last().rows());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    return rows;
  }

  /// Every variant, from passes of `at_once` rows, equals a pass of its own.
  void expect_equal(const std::vector<Variant>& variants, const std::vector<int64_t>& wanted,
                    int64_t at_once, std::span<const float> gates = {}) {
    PatchedForward pass(model_, {.gates = gates, .rows_at_once = at_once});
    std::vector<int> seen(variants.size() + 1);
    pass.run({.source = source_, .target = target_, .rows = wanted}, variants,
             [&](const PatchedRows& rows) {
               for (int64_t v = 0; v < std::ssize(rows.variants); ++v) {
                 const int64_t which = rows.variants[v];
                 const Variant none;
                 ++seen[which == kUnchanged ? variants.size() : which];
                 expect_rows(which == kUnchanged ? none : variants[which], wanted, rows, v, gates);
               }
             });
    EXPECT_EQ(std::ranges::count(seen, 1), std::ssize(seen));
  }

  void expect_rows(const Variant& variant, const std::vector<int64_t>& wanted,
                   const PatchedRows& rows, int64_t v, std::span<const float> gates) {
    Changed changed(variant);
    ForwardOptions options{.observer = &changed};
    if (!gates.empty()) options.gates = {gates.data(), {1, std::ssize(gates)}};
    const Activations expected = run(options);
    const int64_t C = expected.rows.extent(1);
    float largest = 0, error = 0;
    size_t at = 0;
    for (int64_t b = 0; b < last().sequences(); ++b) {
      const int64_t s = rows.sequence(v, b);
      for (int64_t i = rows.offsets[s]; i < rows.offsets[s + 1]; ++i, ++at) {
        ASSERT_LT(at, wanted.size());
        for (int64_t c = 0; c < C; ++c) {
          const float want = expected.rows(wanted[at], c), got = rows.rows(i, c);
          largest = std::max(largest, std::abs(want));
          error = std::max(error, std::isnan(got) ? INFINITY : std::abs(got - want));
        }
      }
    }
    ASSERT_EQ(at, wanted.size());
    EXPECT_LE(error, kVariantTolerance * largest)
        << "head " << (variant.empty() ? -1 : variant[0].head) << " of " << variant.size();
  }

  Model model_;
  TokenBatch source_, target_;
  std::vector<float> constant_, zeros_;
};

TEST_P(Variants, EveryHeadAlone) {
  for (const bool zero : {true, false}) {
    std::vector<Variant> variants;
    for (int64_t head = 0; head < model_.heads(); ++head) {
      variants.push_back({{.head = head, .output = output(head, zero)}});
    }
    expect_equal(variants, all_rows(), 60);
    expect_equal(variants, {0, 3, 8}, 1000);
  }
}

TEST_P(Variants, SeveralHeadsInAnyLayers) {
  std::vector<Variant> variants;
  for (int64_t a = 0; a < model_.heads(); a += 3) {
    Variant variant;
    for (int64_t head = model_.heads() - 1 - a % 2; head >= 0; head -= a + 1) {
      variant.push_back({.head = head, .output = output(head, head % 2 == 0)});
    }
    variants.push_back(variant);
  }
  expect_equal(variants, all_rows(), 40);
  expect_equal(variants, {1, 2, 9}, 1000);
}

TEST_P(Variants, OfAModelWithGates) {
  std::vector<float> gates(model_.heads());
  for (size_t h = 0; h < gates.size(); ++h) gates[h] = static_cast<float>(h * 7 % 5) / 4;
  std::vector<Variant> variants;
  for (int64_t head = 0; head < model_.heads(); head += 2) {
    variants.push_back({{.head = head, .output = output(head, true)}});
  }
  expect_equal(variants, {4}, 50, gates);
}

TEST_P(Variants, ZeroIsAClosedGate) {
  if (model_.heads() == 0) return;
  std::vector<Variant> variants;
  for (int64_t head = 0; head < model_.heads(); ++head) {
    variants.push_back({{.head = head, .output = output(head, true)}});
  }
  PatchedForward pass(model_, {});
  pass.run({.source = source_, .target = target_, .rows = all_rows()}, variants,
           [&](const PatchedRows& rows) {
             for (int64_t v = 0; v < std::ssize(rows.variants); ++v) {
               std::vector<float> gates(model_.heads(), 1.f);
               if (rows.variants[v] != kUnchanged) gates[rows.variants[v]] = 0;
               const Activations expected = run({.gates = {gates.data(), {1, model_.heads()}}});
               double error = 0, largest = 0;
               for (int64_t b = 0; b < last().sequences(); ++b) {
                 const int64_t s = rows.sequence(v, b);
                 for (int64_t i = 0; i < rows.offsets[s + 1] - rows.offsets[s]; ++i) {
                   for (int64_t c = 0; c < expected.rows.extent(1); ++c) {
                     const double want = expected.rows(last().offsets[b] + i, c);
                     largest = std::max(largest, std::abs(want));
                     error = std::max(error, std::abs(want - rows.rows(rows.offsets[s] + i, c)));
                   }
                 }
               }
               EXPECT_LE(error, kVariantTolerance * largest) << rows.variants[v];
             }
           });
}

TEST_P(Variants, OfTheEncoderAlone) {
  if (target_.sequences() == 0) return;
  target_ = {};
  std::vector<Variant> variants;
  for (const AttentionSite& site : model_.attentions()) {
    if (site.side == Side::decoder) continue;
    for (int64_t h = site.first; h < site.first + std::ssize(site.heads); ++h) {
      variants.push_back({{.head = h, .output = output(h, true)}});
    }
  }
  expect_equal(variants, {0, 7, 8}, 60);
}

TEST_P(Variants, BadInputIsRefused) {
  PatchedForward pass(model_, {});
  const auto ignore = [](const PatchedRows&) {};
  for (const std::vector<int64_t>& rows :
       {std::vector<int64_t>{3, 2}, {2, 2}, {-1}, {last().rows()}}) {
    EXPECT_THROW(pass.run({.source = source_, .target = target_, .rows = rows}, {}, ignore), Error);
  }
  const std::vector<Variant> absent = {{{.head = model_.heads(), .output = zeros_}}};
  EXPECT_THROW(pass.run({.source = source_, .target = target_, .rows = {}}, absent, ignore), Error);
  const std::vector<float> gates(model_.heads() + 1);
  EXPECT_THROW(PatchedForward(model_, {.gates = gates}), Error);
}

TEST(VariantsOfLongTexts, AngleIsOfTheText) {
  const Model model = load(golden_model("llama_rope_dynamic"));
  const int64_t most = model.config().max_positions;
  PatchedForward pass(model, {});
  const std::vector<float> zeros(64);
  for (const int64_t length : {most + 5, most - 1, most + 2}) {
    const TokenBatch text = texts_of(model.config().vocabulary, {length}, 3);
    const TokenBatch none;
    const std::vector<int64_t> rows = {length - 1};
    const std::vector<Variant> variants = {
        {{.head = 0, .output = std::span(zeros).first(model.attentions()[0].value_dim)}}};
    pass.run({.source = text, .target = none, .rows = rows}, variants, [&](const PatchedRows& of) {
      std::vector<float> gates(model.heads(), 1.f);
      if (of.variants[0] != kUnchanged) gates[0] = 0;
      const Activations expected =
          model.forward(text, {.gates = {gates.data(), {1, model.heads()}}});
      for (int64_t c = 0; c < expected.rows.extent(1); ++c) {
        EXPECT_NEAR(of.rows(0, c), expected.rows(length - 1, c), 1e-4);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, Variants, testing::ValuesIn(models()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headwise
