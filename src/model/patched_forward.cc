// Runs the model up to each attention, and variants of it from there on.
#include "model/patched_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/kernels/gemm.h"
#include "model/gather_rows.h"
#include "model/later_patches.h"
#include "model/model_parts.h"
#include "model/patched_rows.h"
#include "model/stack_layout.h"

namespace headwise {
namespace {

View<float, 2> room_for(Buffer& buffer, int64_t rows, int64_t columns) {
  return {buffer.at_least(checked_mul(rows, columns)), {rows, columns}};
}

/// One attention of a model, in the order in which a pass comes to them.
struct Stop {
  Side side;
  int64_t layer;
  AttentionKind kind;
  auto operator<=>(const Stop&) const = default;
};

}  // namespace

/// One batch.
class PatchedForward::Run {
 public:
  Run(PatchedForward& pass, const Batch& batch, std::span<const Variant> variants, const Take& take)
      : pass_(pass),
        parts_(*pass.model_.parts_),
        variants_(variants),
        take_(take),
        unchanged_(batch.unchanged),
        gates_{.gates = {pass.options_.gates.data(),
                         {pass.options_.gates.empty() ? 0 : 1, std::ssize(pass.options_.gates)}}} {
    const bool two = parts_.config.encoder_decoder() && batch.target.sequences() > 0;
    stages_.push_back(prepare(parts_.first(), batch.source));
    if (two) stages_.push_back(prepare(parts_.decoder, batch.target));
    if (two && batch.source.sequences() != batch.target.sequences()) {
      throw Error({.what = "sources and targets are not as many",
                   .got = fmt::format("{}", batch.target.sequences()),
                   .expected = fmt::format("{}", batch.source.sequences())});
    }
    wanted_ = some_rows(*stages_.back().batch, batch.rows);
    const Block& last = stages_.back().stack->blocks().back();
    const bool routed = std::ranges::any_of(last.attentions(), &AttentionLayer::is_routed);
    some_wanted_ = wanted_.rows() < stages_.back().all.rows();
    in_last_block_ = some_wanted_ && !routed;
    set_rotary();
    sort_variants();
  }

  void operator()() {
    View<const float, 2> source;
    for (size_t at = 0; at < stages_.size() && !is_done(); ++at) source = run_stage(at, source);
  }

 private:
  struct Stage {
    const Stack* stack;
    const TokenBatch* batch;
    TextRows all;
    int64_t longest = 0;
  };

  Stage prepare(const Stack& stack, const TokenBatch& batch) {
    batch.check();
    Stage stage{.stack = &stack, .batch = &batch, .all = all_rows(batch)};
    for (const int64_t position : stage.all.positions) {
      stage.longest = std::max(stage.longest, position + 1);
    }
    const bool dynamic_ntk = parts_.needs_dynamic_ntk(stage.longest);
    if (dynamic_ntk && batch.sequences() > 1) {
      throw Error({.what = "a text longer than the model's positions is not alone in its batch",
                   .got = fmt::format("{} texts", batch.sequences()),
                   .expected = "1"});
    }
    check_tokens(parts_.config, stack.side(), batch, stage.all.positions, dynamic_ntk);
    return stage;
  }

  Stop stop_of(int64_t head) const {
    const AttentionSite* const site = site_of_head(parts_.sites, head);
    if (site != nullptr) return {site->side, site->layer, site->kind};
    throw Error({.what = "a variant changes a head that is not there",
                 .got = fmt::format("{}", head),
                 .expected = fmt::format("0 to {}", pass_.model_.heads() - 1)});
  }

  /// Variants by the first attention that they change.
  void sort_variants() {
    for (const Variant& variant : variants_) {
      Stop first{.side = Side::decoder, .layer = parts_.config.decoder.layers()};
      for (const ActivationPatch& patch : variant) first = std::min(first, stop_of(patch.head));
      stops_.push_back(first);
    }
    order_.resize(variants_.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](int64_t v) { return stops_[v]; });
    left_ =
        std::ranges::count_if(variants_, [](const Variant& variant) { return !variant.empty(); });
  }

  /// Whether nothing is left to be computed: all variants have run.
  bool is_done() const { return !unchanged_ && left_ == 0; }

  std::span<const int64_t> variants_at(const Stop& stop) const {
    const auto found =
        std::ranges::equal_range(order_, stop, {}, [&](int64_t v) { return stops_[v]; });
    return {found.begin(), found.end()};
  }

  const AttentionSite& site(const Stop& stop) const {
    return site_of(parts_.sites, stop.side, stop.kind, stop.layer);
  }

  void set_rotary() {
    RotaryTable& rotary = pass_.scratch_.attention.rotary;
    if (std::exchange(pass_.dynamic_ntk_, parts_.needs_dynamic_ntk(stages_[0].longest)))
      rotary = {};
    if (pass_.dynamic_ntk_) {
      rotary = parts_.dynamic_ntk_rotary(stages_[0].longest);
      return;
    }
    for (const Stage& stage : stages_) {
      stage.stack->grow_rotary(pass_.scratch_.attention, stage.all.positions);
    }
  }

  /// The model itself, and the variants that begin on its way.
  View<const float, 2> run_stage(size_t at, View<const float, 2> source) {
    const Stage& stage = stages_[at];
    const int64_t C = parts_.config.width;
    Activations embedded = stage.stack->embed(*stage.batch, stage.all.positions);
    Activations other(embedded.rows.extent(0), C);
    View<float, 2> x = embedded.rows, sum = other.rows;
    ForwardObserver nobody;  // who is shown all heads of a mixture of them
    ForwardOptions options = gates_;
    options.observer = &nobody;
    const BlockInput input{.offsets = stage.batch->offsets,
                           .positions = stage.all.positions,
                           .relative = stage.stack->relative(),
                           .cross_offsets = stage.batch->offsets,
                           .source_offsets = stages_[0].batch->offsets,
                           .source = source,
                           .options = &options};
    for (int64_t layer = 0; layer < std::ssize(stage.stack->blocks()); ++layer) {
      const Block& block = stage.stack->blocks()[layer];
      for (const AttentionKind kind : {AttentionKind::self, AttentionKind::cross}) {
        if (kind == AttentionKind::cross && block.cross() == nullptr) continue;
        const Stop stop{stage.stack->side(), layer, kind};
        block.attend(kind, x, input, pass_.scratch_, sum);
        if (const auto here = variants_at(stop); !here.empty()) {
          vary(at, stop, here, sum, Block::heads_of(kind, pass_.scratch_), source);
          left_ -= std::ssize(here);
          if (is_done()) return {};
        }
        block.post_norm(kind, sum);
        std::swap(x, sum);
      }
      block.feed_forward(x, pass_.scratch_);
    }
    stage.stack->finish(x);
    hold_ = x.data() == embedded.rows.data() ? std::move(embedded) : std::move(other);
    if (at + 1 < stages_.size()) return hold_source();
    if (!unchanged_) return {};
    const Sequences sequences(wanted_, 1, false);
    View<const float, 2> rows = x;
    if (some_wanted_) rows = pick(x, sequences, Sequences(stage.all, 1, false));
    const int64_t unchanged = kUnchanged;
    take_({.variants = {&unchanged, 1},
           .rows = rows,
           .offsets = sequences.offsets,
           .texts = wanted_.sequences()});
    return rows;
  }

  View<const float, 2> hold_source() {
    source_ = std::move(hold_);
    return source_.rows;
  }

  View<const float, 2> pick(View<const float, 2> rows, const Sequences& some,
                            const Sequences& all) {
    const View<float, 2> gathered =
        room_for(pass_.out_, std::ssize(some.positions), parts_.config.width);
    gather_rows(rows, find_rows(some, all), gathered);
    return gathered;
  }

  /// The variants of one attention, from the sum that it was added to and the outputs of its heads.
  void vary(size_t at, const Stop& stop, std::span<const int64_t> here, View<const float, 2> sum,
            View<const float, 3> heads, View<const float, 2> source) {
    const Stage& stage = stages_[at];
    const bool last = at + 1 == stages_.size() &&
                      stop.layer + 1 == std::ssize(stage.stack->blocks()) && in_last_block_;
    const TextRows& rows = last ? wanted_ : stage.all;
    const int64_t width = heads.extent(1) * heads.extent(2);
    // The memory of heads is needed for what follows.
    View<float, 2> kept = room_for(pass_.heads_, rows.rows(), width);
    const View<const float, 2> joined(heads.data(), {heads.extent(0), width});
    if (last) {
      const std::vector<int64_t> indices =
          find_rows(Sequences(rows, 1, false), Sequences(stage.all, 1, false));
      gather_rows(joined, indices, kept);
      const View<float, 2> some = room_for(pass_.row_sum_, rows.rows(), sum.extent(1));
      gather_rows(sum, indices, some);
      sum = some;
    } else {
      std::copy_n(joined.data(), joined.extent(0) * width, kept.data());
    }
    const View<const float, 3> z(kept.data(), {rows.rows(), heads.extent(1), heads.extent(2)});
    int64_t most_rows = rows.rows();
    for (size_t later = at + 1; later < stages_.size(); ++later) {
      most_rows = std::max(most_rows, stages_[later].all.rows());
    }
    weights_ = parts_.layer(site(stop)).attention().weights();
    const int64_t together =
        std::max<int64_t>(1, pass_.options_.rows_at_once / std::max<int64_t>(1, most_rows));
    for (int64_t begin = 0; begin < std::ssize(here); begin += together) {
      const int64_t count = std::min(together, std::ssize(here) - begin);
      run_variants(at, stop, here.subspan(begin, count), last, sum, z, source);
    }
  }

  /// out = sum, with what the variant changes here.
  void form(const Variant& variant, const Stop& stop, View<const float, 2> sum,
            View<const float, 3> z, View<float, 2> out) {
    const AttentionSite& here = site(stop);
    const View<const float, 2> weights = weights_->output();  // [C, H Dv]
    const int64_t T = sum.extent(0), C = sum.extent(1), Dv = z.extent(2);
    const View<float, 2> delta = room_for(pass_.delta_, T, Dv);
    bool first = true;
    for (const ActivationPatch& patch : variant) {
      if (stop_of(patch.head) != stop) continue;
      const int64_t h = patch.head - here.first;
      if (std::ssize(patch.output) != Dv) {
        throw Error({.what = "a head cannot say this",
                     .where = here.head_name(h),
                     .got = fmt::format("{} numbers", patch.output.size()),
                     .expected = fmt::format("{}", Dv)});
      }
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t c = 0; c < Dv; ++c) delta(t, c) = patch.output[c] - z(t, h, c);
      }
      const View<const float, 2> of_head(weights.data() + h * Dv, {C, Dv}, weights.strides());
      gemm(delta, transposed(of_head), out,
           first ? Epilogue{.residual = sum} : Epilogue{.accumulate = true});
      first = false;
    }
  }

  LaterPatches later_patches(std::span<const int64_t> chunk, const Stop& stop) const {
    LaterPatches later;
    for (size_t v = 0; v < chunk.size(); ++v) {
      for (const ActivationPatch& patch : variants_[chunk[v]]) {
        const Stop there = stop_of(patch.head);
        if (there == stop) continue;
        later.add({.site = &site(there),
                   .variant = static_cast<int64_t>(v),
                   .head = patch.head - site(there).first,
                   .output = patch.output});
      }
    }
    return later;
  }

  void run_variants(size_t at, const Stop& stop, std::span<const int64_t> chunk, bool last,
                    View<const float, 2> sum, View<const float, 3> z, View<const float, 2> source) {
    const Stage& stage = stages_[at];
    const int64_t V = std::ssize(chunk), T = sum.extent(0), C = sum.extent(1);
    View<float, 2> x = room_for(pass_.rows_, V * T, C);
    for (int64_t v = 0; v < V; ++v) {
      form(variants_[chunk[v]], stop, sum, z, x.rows(v * T, (v + 1) * T));
    }
    // Texts that read one source lie together, so that its keys are projected once.
    const bool by_text = at > 0;
    const TextRows& rows = last ? wanted_ : stage.all;
    const Sequences sequences(rows, V, by_text);
    if (by_text) x = grouped_by_text(x, rows, V, sequences);

    LaterPatches later = later_patches(chunk, stop);
    ForwardOptions options = gates_;
    options.observer = later.any() ? &later : nullptr;
    later.lay_out(sequences, rows.sequences(), V, by_text);
    BlockInput input{.offsets = sequences.offsets,
                     .positions = sequences.positions,
                     .relative = stage.stack->relative(),
                     .cross_offsets = sequences.groups,
                     .source_offsets = stages_[0].batch->offsets,
                     .source = source,
                     .options = &options};
    stage.stack->blocks()[stop.layer].finish(stop.kind, x, input, pass_.scratch_);
    const Rest rest{.stage = &stage, .first = stop.layer + 1, .variants = V, .by_text = by_text};
    if (at + 1 == stages_.size()) {
      give(chunk, rest, last ? finished(stage, x) : run_rest(rest, x, sequences, input, later));
      return;
    }
    run_rest(rest, x, sequences, input, later);
    run_decoder(chunk, x, sequences, options, later);
  }

  /// What is left of a stage for variants.
  struct Rest {
    const Stage* stage;
    int64_t first;  // block
    int64_t variants;
    bool by_text;
  };

  View<const float, 2> finished(const Stage& stage, View<float, 2> x) const {
    stage.stack->finish(x);
    return x;
  }

  /// Gives the last hidden states: in x if they are all wanted, or not of the last stage.
  View<const float, 2> run_rest(const Rest& rest, View<float, 2> x, const Sequences& sequences,
                                const BlockInput& input, LaterPatches& later) {
    const Stage& stage = *rest.stage;
    const std::span<const Block> blocks = stage.stack->blocks();
    const bool is_last = &stage == &stages_.back();
    const bool some = is_last && in_last_block_;
    for (int64_t layer = rest.first; layer < std::ssize(blocks) - (some ? 1 : 0); ++layer) {
      blocks[layer].forward(x, input, pass_.scratch_, nullptr);
    }
    if (!some) {
      stage.stack->finish(x);
      if (!is_last || !some_wanted_) return x;
      return pick(x, Sequences(wanted_, rest.variants, rest.by_text), sequences);
    }
    const Sequences wanted(wanted_, rest.variants, rest.by_text);
    BlockInput of_rows = input;
    of_rows.offsets = wanted.offsets;
    of_rows.positions = wanted.positions;
    of_rows.cross_offsets = rest.by_text ? wanted.groups : wanted.offsets;
    later.lay_out(wanted, wanted_.sequences(), rest.variants, rest.by_text);
    const View<float, 2> out = room_for(pass_.out_, std::ssize(wanted.positions), x.extent(1));
    blocks.back().forward_rows(x, input, find_rows(wanted, sequences), of_rows, pass_.scratch_,
                               out);
    return finished(stage, out);
  }

  /// The decoder for variants of the encoder, each with its own source.
  void run_decoder(std::span<const int64_t> chunk, View<const float, 2> source,
                   const Sequences& source_sequences, const ForwardOptions& options,
                   LaterPatches& later) {
    const Stage& stage = stages_.back();
    const int64_t V = std::ssize(chunk), T = stage.all.rows(), C = parts_.config.width;
    if (embedded_target_.rows.data() == nullptr) {
      embedded_target_ = stage.stack->embed(*stage.batch, stage.all.positions);
    }
    const View<float, 2> x = room_for(pass_.target_rows_, V * T, C);
    for (int64_t v = 0; v < V; ++v) {
      std::copy_n(embedded_target_.rows.data(), T * C, &x(v * T, 0));
    }
    const Sequences sequences(stage.all, V, false);
    later.lay_out(sequences, stage.all.sequences(), V, false);
    const BlockInput input{.offsets = sequences.offsets,
                           .positions = sequences.positions,
                           .relative = stage.stack->relative(),
                           .cross_offsets = sequences.offsets,
                           .source_offsets = source_sequences.offsets,
                           .source = source,
                           .options = &options};
    const Rest rest{.stage = &stage, .first = 0, .variants = V, .by_text = false};
    give(chunk, rest, run_rest(rest, x, sequences, input, later));
  }

  /// From variant by variant to text by text.
  View<float, 2> grouped_by_text(View<const float, 2> x, const TextRows& rows, int64_t variants,
                                 const Sequences& by_text) {
    const View<float, 2> out = room_for(pass_.grouped_, x.extent(0), x.extent(1));
    for (int64_t b = 0; b < rows.sequences(); ++b) {
      const int64_t count = rows.offsets[b + 1] - rows.offsets[b];
      for (int64_t v = 0; v < variants; ++v) {
        if (count == 0) continue;
        std::copy_n(&x(v * rows.rows() + rows.offsets[b], 0), count * x.extent(1),
                    &out(by_text.offsets[b * variants + v], 0));
      }
    }
    return out;
  }

  void give(std::span<const int64_t> chunk, const Rest& rest, View<const float, 2> rows) const {
    const Sequences wanted(wanted_, rest.variants, rest.by_text);
    take_({.variants = chunk,
           .rows = rows,
           .offsets = wanted.offsets,
           .texts = wanted_.sequences(),
           .by_text = rest.by_text});
  }

  PatchedForward& pass_;
  const Model::Parts& parts_;
  std::span<const Variant> variants_;
  const Take& take_;
  bool unchanged_;
  ForwardOptions gates_;
  std::vector<Stage> stages_;
  TextRows wanted_;
  bool some_wanted_ = false;                                  // not all rows of the last stage
  std::shared_ptr<const MultiHeadAttentionWeights> weights_;  // of the attention at hand
  bool in_last_block_ = false;  // and the last block is computed for these alone
  std::vector<Stop> stops_;     // of the variants
  std::vector<int64_t> order_;
  int64_t left_ = 0;  // variants that have not run
  Activations hold_, source_, embedded_target_;
};

PatchedForward::PatchedForward(const Model& model, const Options& options)
    : model_(model), options_(options) {
  const auto count = std::ssize(options.gates);
  if (count == 0 || count == model.heads()) return;
  throw Error({.what = "the gates are not one per head",
               .got = fmt::format("{}", count),
               .expected = fmt::format("{}", model.heads())});
}

void PatchedForward::run(const Batch& batch, std::span<const Variant> variants, const Take& take) {
  Run(*this, batch, variants, take)();
}

}  // namespace headwise
