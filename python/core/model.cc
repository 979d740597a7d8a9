// A model: what it is, its tokenizer, and forward passes that record what heads do.
#include "headwise/model/model.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "core.h"
#include "headwise/core/error.h"
#include "headwise/kernels/attention.h"
#include "headwise/model/generate.h"
#include "headwise/prune/prune.h"
#include "headwise/text/tokenizer.h"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace headwise::python {
namespace {

struct Recorded {
  std::vector<float> values{};
  std::vector<size_t> shape{};
};

/// Keeps what is asked for, by keys such as "L3.z" and "L3.resid_post". Ctrl-C stops it.
class Recorder : public ForwardObserver {
 public:
  explicit Recorder(const std::vector<std::string>& wanted)
      : wanted_(wanted.begin(), wanted.end()) {
    for (const std::string& key : wanted_) wants_attn_out_ |= key.ends_with(".attn_out");
  }

  bool wants_heads() const override { return !wanted_.empty(); }
  AttentionObserver* attention_observer(const AttentionSite&, const Attention&) override {
    return nullptr;
  }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2>) override {
    keep(site.name + ".q", attention.q);
    keep(site.name + ".k", attention.k);
    keep(site.name + ".v", attention.v);
    keep(site.name + ".z", View<const float, 3>(z));
    if (wanted_.contains(site.name + ".pattern")) keep_pattern(site, attention);
  }

  bool wants_attn_out() const override { return wants_attn_out_; }
  void on_attn_out(const AttentionSite& site, View<const float, 2> rows) override {
    keep(site.name + ".attn_out", rows);
  }

  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override {
    signals_.check();
    const std::string name = (side == Side::encoder ? "encoder." : "decoder.");
    keep(name + std::to_string(layer) + ".resid_post", rows);
  }

  std::map<std::string, Recorded> found{};

 private:
  template <int R>
  void keep(const std::string& key, const View<const float, R>& from) {
    if (!wanted_.contains(key)) return;
    Recorded recorded{.values = values_of(from)};
    for (int r = 0; r < R; ++r) recorded.shape.push_back(static_cast<size_t>(from.extent(r)));
    found[key] = std::move(recorded);
  }

  /// [rows, heads, keys], padded with 0 where texts have fewer keys.
  void keep_pattern(const AttentionSite& site, const Attention& attention) {
    std::vector<int64_t> rows(attention.q.extent(0));
    for (size_t t = 0; t < rows.size(); ++t) rows[t] = static_cast<int64_t>(t);
    const AttentionMaps maps = attention_maps(attention, rows);
    size_t most = 0;
    for (size_t i = 0; i + 1 < maps.offsets.size(); ++i) {
      most = std::max(most, static_cast<size_t>(maps.offsets[i + 1] - maps.offsets[i]));
    }
    const auto heads = static_cast<size_t>(maps.heads);
    Recorded recorded{.values = std::vector<float>(rows.size() * heads * most),
                      .shape = {rows.size(), heads, most}};
    for (size_t i = 0; i + 1 < maps.offsets.size(); ++i) {
      std::copy(maps.weights.begin() + maps.offsets[i], maps.weights.begin() + maps.offsets[i + 1],
                recorded.values.begin() + static_cast<ptrdiff_t>(i * most));
    }
    found[site.name + ".pattern"] = std::move(recorded);
  }

  std::set<std::string> wanted_;
  bool wants_attn_out_ = false;
  Signals signals_{};
};

TokenBatch batch_of(const std::vector<std::vector<int32_t>>& texts) {
  TokenBatch batch;
  for (const std::vector<int32_t>& text : texts) batch.add(text);
  return batch;
}

nb::object rows_to_numpy(const Activations& activations) {
  const auto rows = static_cast<size_t>(activations.rows.extent(0));
  const auto width = static_cast<size_t>(activations.rows.extent(1));
  return to_numpy(values_of(activations.rows), {rows, width});
}

/// The last hidden states [T, C], and what was asked for.
nb::object forward(const Model& model, const std::vector<std::vector<int32_t>>& source,
                   const std::vector<std::vector<int32_t>>& target,
                   const Maybe<Array<const float, 2>>& gates,
                   const std::vector<std::string>& record) {
  Recorder recorder(record);
  Activations hidden;
  {
    const nb::gil_scoped_release released;
    const ForwardOptions options{.gates = view<2>(gates), .observer = &recorder};
    hidden = target.empty() ? model.forward(batch_of(source), options)
                            : model.forward(batch_of(source), batch_of(target), options);
  }
  nb::dict recorded;
  for (auto& [key, one] : recorder.found) {
    recorded[key.c_str()] = to_numpy(std::move(one.values), one.shape);
  }
  return nb::make_tuple(rows_to_numpy(hidden), recorded);
}

/// The output layer on the rows that it reads, and the numbers of these rows.
nb::object output(const Model& model, const Array<const float, 2>& hidden,
                  const List<const int64_t>& offsets) {
  const std::vector<int64_t> rows = model.output_rows(span(offsets));
  Activations result;
  {
    const nb::gil_scoped_release released;
    result = model.output(gather(view<2>(hidden), rows).rows);
  }
  return nb::make_tuple(rows_to_numpy(result), to_numpy(rows, {rows.size()}));
}

const Tokenizer& tokenizer_of(const Model& model) {
  if (model.tokenizer() != nullptr) return *model.tokenizer();
  throw Error({.what = "the model has no tokenizer",
               .where = model.folder().string(),
               .hint = "pass token ids, or give load() the tokenizer of a transformers model"});
}

const AttentionConfig& config_of(const Model& model, const AttentionSite& site) {
  const StackConfig& stack =
      site.side == Side::encoder ? model.config().encoder : model.config().decoder;
  return (site.kind == AttentionKind::cross ? stack.cross : stack.attention)[site.layer];
}

nb::object attentions(const Model& model) {
  nb::list result;
  for (const AttentionSite& site : model.attentions()) {
    const bool rotary = model.config().positions == PositionKind::rotary &&
                        site.kind == AttentionKind::self && config_of(model, site).rotary;
    result.append(nb::make_tuple(site.name, site.heads, rotary));
  }
  return result;
}

/// How to write: as the folder says, but for what is given.
GenerateOptions generate_options(const Model& model, std::optional<int64_t> max_new_tokens,
                                 std::optional<int64_t> beams, std::optional<bool> sample,
                                 std::optional<float> temperature, std::optional<int64_t> top_k,
                                 std::optional<float> top_p, uint64_t seed) {
  GenerateOptions options = read_generation(model.folder(), model.config());
  options.max_new_tokens = max_new_tokens.value_or(options.max_new_tokens);
  options.beams = beams.value_or(options.beams);
  options.sample = sample.value_or(options.sample);
  options.temperature = temperature.value_or(options.temperature);
  options.top_k = top_k.value_or(options.top_k);
  options.top_p = top_p.value_or(options.top_p);
  options.seed = seed;
  return options;
}

/// The new tokens of each text, without the one that ended it.
std::vector<std::vector<int32_t>> generate_tokens(const Model& model,
                                                  const std::vector<std::vector<int32_t>>& texts,
                                                  const Maybe<Array<const float, 2>>& gates,
                                                  GenerateOptions options) {
  Recorder signals({});
  options.forward = {.gates = view<2>(gates), .observer = &signals};
  std::vector<std::vector<int32_t>> results;
  for (Generated& text : generate(model, batch_of(texts), options)) {
    results.push_back(std::move(text.ids));
  }
  return results;
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<Model>(module, "Model", "A model from a folder. See headwise.Model.")
      .def_prop_ro("name", &Model::name)
      .def_prop_ro("folder", [](const Model& m) { return m.folder().string(); })
      .def_prop_ro("has_tokenizer", [](const Model& m) { return m.tokenizer() != nullptr; })
      .def_prop_ro("has_output", [](const Model& m) { return m.output_width() > 0; })
      .def_prop_ro("is_encoder",
                   [](const Model& m) {
                     return !m.attentions().empty() && m.attentions().front().side == Side::encoder;
                   })
      .def_prop_ro("is_causal_lm",
                   [](const Model& m) { return m.config().task == Task::causal_lm; })
      .def_prop_ro("is_post_norm",
                   [](const Model& m) { return m.config().norm_place == NormPlace::after; })
      .def_prop_ro("max_positions", [](const Model& m) { return m.config().max_positions; })
      .def_prop_ro(
          "text_ends",
          [](const Model& m) {
            const Tokenizer::SpecialTokens& special = tokenizer_of(m).special_tokens();
            const std::vector<int32_t>& eos = m.config().eos;
            return std::pair(special.bos,
                             special.eos || eos.empty() ? special.eos : std::optional(eos.front()));
          },
          "The tokens that begin and end texts of the tokenizer: <bos> and <eos>.")
      .def(
          "hash",
          [](const Model& m) {
            const nb::gil_scoped_release released;
            Signals signals;
            return m.hash([&] { signals.check(); });
          },
          "SHA-256 of the files with weights.")
      .def("attentions", &attentions,
           "Of each attention its name, its heads, and whether queries and keys are rotated.")
      .def(
          "save",
          [](const Model& m, const std::string& folder) {
            const nb::gil_scoped_release released;
            m.save(folder);
          },
          "folder"_a)
      .def(
          "encode",
          [](const Model& m, std::string_view text, bool add_special) {
            return tokenizer_of(m).encode(text, {.add_special = add_special}).ids;
          },
          "text"_a, "add_special"_a = true, "The token ids of a text.")
      .def(
          "decode",
          [](const Model& m, const std::vector<int32_t>& ids) {
            return tokenizer_of(m).decode(ids);
          },
          "ids"_a, "The text of token ids, without special tokens.")
      .def(
          "tokens",
          [](const Model& m, const std::vector<int32_t>& ids) {
            std::vector<std::string> tokens;
            for (const int32_t id : ids) tokens.push_back(tokenizer_of(m).token(id));
            return tokens;
          },
          "ids"_a)
      .def("forward", &forward, "source"_a, "target"_a, "gates"_a.none(), "record"_a,
           "The last hidden states, and a dictionary of what was asked for.")
      .def("output", &output, "hidden"_a, "offsets"_a,
           "The output layer on the rows that it reads, and the numbers of these rows.")
      .def(
          "generate",
          [](const Model& m, const std::vector<std::vector<int32_t>>& texts,
             const Maybe<Array<const float, 2>>& gates, std::optional<int64_t> max_new_tokens,
             std::optional<int64_t> beams, std::optional<bool> sample,
             std::optional<float> temperature, std::optional<int64_t> top_k,
             std::optional<float> top_p, uint64_t seed) {
            const nb::gil_scoped_release released;
            return generate_tokens(m, texts, gates,
                                   generate_options(m, max_new_tokens, beams, sample, temperature,
                                                    top_k, top_p, seed));
          },
          "texts"_a, "gates"_a.none(), nb::kw_only(), "max_new_tokens"_a.none(), "beams"_a.none(),
          "sample"_a.none(), "temperature"_a.none(), "top_k"_a.none(), "top_p"_a.none(), "seed"_a,
          "The new token ids of each text.");
  nb::class_<PrunedModel, Model>(module, "PrunedModel")
      .def_prop_ro("report", [](const PrunedModel& m) { return to_json(m.report()); });
  module.def(
      "load",
      [](const std::string& folder_or_id, bool allow_unexpected, bool allow_nonfinite) {
        const nb::gil_scoped_release released;
        return load(folder_or_id,
                    {.allow_nonfinite = allow_nonfinite, .allow_unexpected = allow_unexpected});
      },
      "folder_or_id"_a, "allow_unexpected"_a = false, "allow_nonfinite"_a = false);
}

}  // namespace headwise::python
