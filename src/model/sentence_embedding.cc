// Pooling, dense layers and normalisation of sentence embeddings.
#include "headwise/model/sentence_embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/io/json.h"
#include "headwise/kernels/activation.h"
#include "headwise/kernels/gemm.h"
#include "io/file.h"
#include "model/layers.h"
#include "model/pooling.h"
#include "model/sentence_modules.h"

namespace headwise {
namespace {

Activations pool(View<const float, 2> hidden, std::span<const int64_t> offsets,
                 const PoolingModule& pooling) {
  const int64_t B = std::ssize(offsets) - 1, C = hidden.extent(1);
  Activations pooled(B, C * std::ssize(pooling.modes));
  for (int64_t b = 0; b < B; ++b) {
    if (offsets[b] == offsets[b + 1]) {
      throw Error(
          {.what = "a text without tokens has no embedding", .where = fmt::format("text {}", b)});
    }
    for (size_t m = 0; m < pooling.modes.size(); ++m) {
      pool(hidden.rows(offsets[b], offsets[b + 1]), pooling.modes[m], &pooled.rows(b, m * C));
    }
  }
  return pooled;
}

double norm_of(View<const float, 2> rows, int64_t b) {
  double squares = 0;
  for (int64_t c = 0; c < rows.extent(1); ++c) squares += double{rows(b, c)} * rows(b, c);
  return std::max(std::sqrt(squares), 1e-12);
}

void normalize(View<float, 2> rows) {
  for (int64_t b = 0; b < rows.extent(0); ++b) {
    const double norm = norm_of(rows, b);
    for (int64_t c = 0; c < rows.extent(1); ++c) {
      rows(b, c) = static_cast<float>(rows(b, c) / norm);
    }
  }
}

/// d becomes the gradient for x of what x / |x| has the gradient d of.
void normalize_backward(View<const float, 2> x, View<float, 2> d) {
  for (int64_t b = 0; b < x.extent(0); ++b) {
    const double norm = norm_of(x, b);
    double along = 0;
    for (int64_t c = 0; c < x.extent(1); ++c) along += double{d(b, c)} * x(b, c) / norm;
    for (int64_t c = 0; c < x.extent(1); ++c) {
      d(b, c) = static_cast<float>((double{d(b, c)} - along * x(b, c) / norm) / norm);
    }
  }
}

/// The gradient for the input x of a layer, of d for what it gave; d is used up.
Activations dense_backward(const DenseModule& dense, View<const float, 2> x, View<float, 2> d) {
  if (dense.activation != Activation::none) {
    const Activations raw(d.extent(0), d.extent(1));
    dense.linear.forward(x, raw.rows);
    activate_backward(raw.rows, dense.activation, d, d);
  }
  Activations dx(x.extent(0), x.extent(1));
  gemm(d, dense.weights.view({d.extent(1), x.extent(1)}), dx.rows);
  return dx;
}

}  // namespace

struct SentencePooling::Parts {
  std::vector<SentenceModule> modules;
  std::optional<int64_t> max_tokens;

  /// What each module gives.
  std::vector<Activations> run(View<const float, 2> hidden, std::span<const int64_t> offsets) const;
};

std::vector<Activations> SentencePooling::Parts::run(View<const float, 2> hidden,
                                                     std::span<const int64_t> offsets) const {
  std::vector<Activations> outputs;
  for (const SentenceModule& module : modules) {
    if (const auto* pooling = std::get_if<PoolingModule>(&module)) {
      outputs.push_back(pool(hidden, offsets, *pooling));
      continue;
    }
    const View<const float, 2> x = outputs.back().rows;
    if (const auto* dense = std::get_if<DenseModule>(&module)) {
      Activations next(x.extent(0), dense->linear.outputs());
      dense->linear.forward(x, next.rows, {.activation = dense->activation});
      outputs.push_back(std::move(next));
    } else {
      Activations next(x.extent(0), x.extent(1));
      std::copy_n(x.data(), x.extent(0) * x.extent(1), next.rows.data());
      normalize(next.rows);
      outputs.push_back(std::move(next));
    }
  }
  return outputs;
}

SentencePooling::SentencePooling(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
SentencePooling::SentencePooling(SentencePooling&&) noexcept = default;
SentencePooling& SentencePooling::operator=(SentencePooling&&) noexcept = default;
SentencePooling::~SentencePooling() = default;

std::optional<SentencePooling> SentencePooling::find(const std::filesystem::path& folder) {
  std::vector<SentenceModule> modules = read_sentence_modules(folder);
  if (modules.empty()) return std::nullopt;
  auto parts = std::make_unique<Parts>();
  parts->modules = std::move(modules);
  const std::filesystem::path limits = folder / "sentence_bert_config.json";
  if (is_there(limits)) {
    const nlohmann::json values = read_json(limits);
    parts->max_tokens = JsonObject(values, limits.string()).optional_integer("max_seq_length", 1);
  }
  return SentencePooling(std::move(parts));
}

SentencePooling SentencePooling::mean() {
  auto parts = std::make_unique<Parts>();
  parts->modules.push_back(PoolingModule{{Pool::mean}});
  return SentencePooling(std::move(parts));
}

SentencePooling SentencePooling::find_or_mean(const std::filesystem::path& folder) {
  std::optional<SentencePooling> found = find(folder);
  return found ? std::move(*found) : mean();
}

std::optional<int64_t> SentencePooling::max_tokens() const { return parts_->max_tokens; }

Activations SentencePooling::embed(View<const float, 2> hidden,
                                   std::span<const int64_t> offsets) const {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != hidden.extent(0) ||
      !std::ranges::is_sorted(offsets)) {
    throw Error({.what = "the offsets of texts do not cover their hidden states",
                 .where = "embed",
                 .got = fmt::format("[{}]", fmt::join(offsets, ", ")),
                 .expected = fmt::format("ascending from 0 to {}", hidden.extent(0))});
  }
  return std::move(parts_->run(hidden, offsets).back());
}

SentencePooling::Reads SentencePooling::reads() const {
  const std::vector<Pool>& modes = std::get<PoolingModule>(parts_->modules.front()).modes;
  if (modes.size() > 1) return Reads::all;
  return modes[0] == Pool::cls ? Reads::first : modes[0] == Pool::last ? Reads::last : Reads::all;
}

void SentencePooling::backward(View<const float, 2> hidden, std::span<const int64_t> offsets,
                               View<const float, 2> dembedding, View<float, 2> dhidden) const {
  const std::vector<Activations> outputs = parts_->run(hidden, offsets);
  Activations d(dembedding.extent(0), dembedding.extent(1));
  for (int64_t b = 0; b < d.rows.extent(0); ++b) {
    std::copy_n(&dembedding(b, 0), d.rows.extent(1), &d.rows(b, 0));
  }
  for (size_t at = parts_->modules.size(); at-- > 1;) {
    const View<const float, 2> x = outputs[at - 1].rows;
    if (const auto* dense = std::get_if<DenseModule>(&parts_->modules[at])) {
      d = dense_backward(*dense, x, d.rows);
    } else {
      normalize_backward(x, d.rows);
    }
  }
  const int64_t C = hidden.extent(1);
  const std::vector<Pool>& modes = std::get<PoolingModule>(parts_->modules.front()).modes;
  for (int64_t b = 0; b + 1 < std::ssize(offsets); ++b) {
    const View<float, 2> drows = dhidden.rows(offsets[b], offsets[b + 1]);
    for (int64_t i = 0; i < drows.extent(0); ++i) std::fill_n(&drows(i, 0), C, 0.f);
    for (size_t m = 0; m < modes.size(); ++m) {
      pool_backward(hidden.rows(offsets[b], offsets[b + 1]), modes[m], &d.rows(b, m * C), drows);
    }
  }
}

}  // namespace headwise
