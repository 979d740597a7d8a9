// Passes of golden models.
#include <deque>
#include <filesystem>

#include "bits/bits.h"
#include "headwise/core/random.h"
#include "prune_testing.h"

namespace headwise {
namespace {

void add(BitHash& hash, const RunningMean& running_mean) {
  hash.add(running_mean.sum);
  hash.add(running_mean.n);
}

/// Everything that a pass shows of itself.
class Everything : public ForwardObserver {
 public:
  explicit Everything(BitHash& hash) : hash_(hash) {}

  AttentionObserver* attention_observer(const AttentionSite& site, const Attention&) override {
    observers_.push_back({.cross = site.kind == AttentionKind::cross});
    return &observers_.back();
  }

  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2> lse) override {
    hash_.add(site.name);
    for (int64_t row = 0; row < z.extent(0); ++row) {
      for (int64_t h = 0; h < z.extent(1); ++h) {
        hash_.add(std::span<const float>(&z(row, h, 0), z.extent(2)));
        hash_.add(lse(row, h));
      }
    }
  }

  bool wants_attn_out() const override { return true; }
  void on_attn_out(const AttentionSite&, View<const float, 2> rows) override { hash_.add(rows); }
  void on_resid_post(Side, int64_t, View<const float, 2> rows) override { hash_.add(rows); }

  void add_statistics() {
    for (const AttentionObserver& observer : observers_) {
      for (const HeadStatistics& head : observer.heads) {
        for (const RunningMean* running_mean :
             {&head.entropy, &head.entropy_ratio, &head.confidence, &head.mass_first,
              &head.mass_last, &head.distance, &head.mass_previous, &head.mass_self,
              &head.mass_next, &head.mass_window, &head.mass_diagonal}) {
          add(hash_, *running_mean);
        }
        for (const RunningMean& running_mean : head.offset_share) add(hash_, running_mean);
      }
    }
  }

 private:
  BitHash& hash_;
  std::deque<AttentionObserver> observers_;
};

/// Gates of 0, 0.5, 1 and 1.25, other ones for each text.
std::vector<float> mixed_gates(const Model& model, int64_t texts) {
  Random random(11);
  std::vector<float> gates(texts * model.heads());
  for (float& gate : gates) gate = std::array{0.f, 0.5f, 1.f, 1.25f}[random.below(4)];
  return gates;
}

Activations pass(const Model& model, const Texts& texts, const ForwardOptions& options) {
  return texts.target.sequences() > 0 ? model.forward(texts.source, texts.target, options)
                                      : model.forward(texts.source, options);
}

std::string whole_pass(const std::string& name) {
  const Model model = load(golden_model(name));
  const Texts texts(model.config());
  const TokenBatch& last = texts.target.sequences() > 0 ? texts.target : texts.source;
  BitHash hash;
  const Activations open = pass(model, texts, {});
  hash.add(open.rows);
  if (model.output_width() > 0) {
    hash.add(model.output(gather(open.rows, model.output_rows(last.offsets)).rows).rows);
  }
  const std::vector<float> gates = mixed_gates(model, last.sequences());
  hash.add(pass(model, texts, {.gates = {gates.data(), {last.sequences(), model.heads()}}}).rows);
  Everything everything(hash);
  hash.add(pass(model, texts, {.observer = &everything}).rows);
  everything.add_statistics();
  return hash.finish();
}

/// The tokens of the texts one by one, over a key/value cache.
std::string step_by_step(const std::string& name) {
  const Model model = load(golden_model(name));
  const Texts texts(model.config());
  const bool two = model.config().encoder_decoder();
  const TokenBatch& written = two ? texts.target : texts.source;
  constexpr int64_t kSteps = 4;
  DecoderState state = model.start(written.sequences(), kSteps, two ? texts.source : TokenBatch());
  BitHash hash;
  for (int64_t step = 0; step < kSteps; ++step) {
    TokenBatch next;
    for (int64_t b = 0; b < written.sequences(); ++b) {
      next.add(std::span(written.ids).subspan((written.offsets[b] + step) % written.rows(), 1));
    }
    hash.add(model.step(next, state).rows);
  }
  return hash.finish();
}

}  // namespace

std::vector<BitCase> forward_cases() {
  std::vector<BitCase> cases;
  for (const std::string& name : golden_model_names()) {
    cases.push_back({name, [name] { return whole_pass(name); }});
    if (read_config(golden_model(name)).decoder.causal) {
      cases.push_back({name + ".steps", [name] { return step_by_step(name); }});
    }
  }
  return cases;
}

}  // namespace headwise
