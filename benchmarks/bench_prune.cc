// Pruned models: what is left of the time of attention layers and of whole models, beside what is
// left of their work, and beside the masked model in PyTorch, which saves nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/model/multi_head_attention.h"
#include "headwise/model/summary.h"
#include "headwise/prune/prune.h"
#include "model_problem.h"
#include "peer.h"
#include "plan/model_cost.h"
#include "report.h"
#include "temporary_folder.h"

namespace headwise::bench {
namespace {

constexpr double kTolerance = 1e-3;  // of the largest value; libraries order their sums differently
constexpr double kSlack = 0.1;       // of the time of attention layers, beyond the share of heads

/// The attention layers of a model with so many heads in each, on rows of their own.
class AttentionLayers {
 public:
  AttentionLayers(const ModelConfig& config, int64_t heads, const std::vector<int64_t>& lengths)
      : offsets_{0} {
    for (const int64_t length : lengths) offsets_.push_back(offsets_.back() + length);
    x_ = Activations(offsets_.back(), config.width);
    out_ = Activations(offsets_.back(), config.width);
    Random random(1);
    const auto fill = [&](std::span<float> values, float scale) {
      for (float& value : values) value = scale * (2 * random.uniform() - 1);
    };
    fill(x_.buffer.span(), 1);
    const int64_t width = config.encoder.attention.front().head_dim;
    for (int64_t layer = 0; layer < config.encoder.layers(); ++layer) {
      MultiHeadAttentionWeights weights({.width = config.width, .heads = heads, .head_dim = width});
      fill(weights.all(), 2 / std::sqrt(static_cast<float>(config.width)));
      layers_.emplace_back(std::move(weights));
    }
  }

  void run() {
    for (const MultiHeadAttention& layer : layers_) {
      layer.forward(x_.rows, {}, {.q_offsets = offsets_}, pass_, out_.rows, {.residual = x_.rows});
    }
  }

 private:
  std::vector<int64_t> offsets_;
  Activations x_, out_;
  std::vector<MultiHeadAttention> layers_;
  MultiHeadAttention::Pass pass_;
};

class PruneBenchmark {
 public:
  PruneBenchmark(const Options& options, Report& report)
      : options_(options),
        report_(report),
        harness_({.sample_seconds = 0.03,
                  .samples = options.quick ? 5 : 9,
                  .race_seconds = options.quick ? 3. : 10.}),
        folder_(options.models.empty() ? folders_.folder(kMiniLm).string()
                                       : options.models.front()),
        summary_(summarize(folder_)),
        full_(load(folder_)) {}

  void run() {
    const auto all = std::ssize(full_.attentions().front().heads);
    for (const int threads : options_.threads) {
      for (const std::vector<int64_t>& lengths :
           {std::vector<int64_t>(8, 128), std::vector<int64_t>(1, 128)}) {
        for (const int64_t quarter : {3, 2, 1}) {
          const Case one{
              .heads = all * quarter / 4, .all = all, .lengths = lengths, .threads = threads};
          attention(one);
          model(one);
        }
      }
    }
  }

 private:
  struct Case {
    int64_t heads = 0, all = 0;  // in every layer
    std::vector<int64_t> lengths{};
    int threads = 1;

    std::string name(const char* what) const {
      return fmt::format("{} heads={}/{} batch={}x{} threads={}", what, heads, all, lengths.size(),
                         lengths.front(), threads);
    }
  };

  void attention(const Case& one) {
    const std::string name = one.name("attention");
    if (!options_.select(name)) return;
    set_threads(one.threads);
    const ModelConfig& config = full_.config();
    AttentionLayers left(config, one.heads, one.lengths), all(config, one.all, one.lengths);
    const std::vector<Timing> timings =
        harness_.race(one.threads, {timer_of([&] { left.run(); }), timer_of([&] { all.run(); })});
    report_.add({.name = name,
                 .unit = "of the time of all heads",
                 .ours = timings[0].seconds / timings[1].seconds,
                 .goal = static_cast<double>(one.heads) / static_cast<double>(one.all) + kSlack,
                 .higher_is_better = false,
                 .goal_is_of_ours = true,
                 .disturbed = timings[0].disturbed || timings[1].disturbed});
  }

  void model(const Case& one) {
    const std::string name = one.name("model"), masked = one.name("masked");
    if (!options_.select(name) && !options_.select(masked)) return;
    set_threads(one.threads);
    const Model left = load(folder(one.heads, PruneForm::compact));
    const TokenBatch tokens = texts(one.lengths);
    std::vector<Timer> sides{timer_of([&] { (void)left.forward(tokens); }),
                             timer_of([&] { (void)full_.forward(tokens); })};
    if (options_.select(masked)) add_peer(masked, one, left, tokens, sides);
    const std::vector<Timing> timings = harness_.race(one.threads, sides);
    const double work = less_work(one.heads, one.lengths.front());
    report_.add({.name = name,
                 .unit = "times as fast as all heads",
                 .ours = timings[1].seconds / timings[0].seconds,
                 .goal = work,
                 .goal_is_of_ours = true,
                 .disturbed = timings[0].disturbed || timings[1].disturbed});
    if (sides.size() < 3) return;
    report_.add({.name = masked,
                 .unit = "passes/s",
                 .ours = 1 / timings[0].seconds,
                 .peer = 1 / timings[2].seconds,
                 .ratio = timings[2].seconds / timings[0].seconds,
                 .goal = work,
                 .disturbed = timings[0].disturbed || timings[2].disturbed});
  }

  /// transformers with the masked form of the same model, whose numbers are those of the compact
  /// one.
  void add_peer(const std::string& name, const Case& one, const Model& left,
                const TokenBatch& tokens, std::vector<Timer>& sides) {
    if (options_.peer.empty()) return;
    try {
      if (peer_ == nullptr) peer_ = std::make_unique<Peer>(options_, "model");
      peer_->prepare({{"op", "encode"},
                      {"engine", "transformers"},
                      {"folder", folder(one.heads, PruneForm::masked).string()},
                      {"ids", ids_of(tokens)},
                      {"batches", 1},
                      {"threads", one.threads}});
      require_near(name, left.forward(tokens).buffer.span(), peer_->outputs(), kTolerance);
      sides.push_back([this](int64_t reps) { return peer_->time(reps); });
    } catch (const Error& error) {
      report_.refused(error);
    }
  }

  /// How many times the multiply-adds of the pruned model those of the whole one are.
  double less_work(int64_t heads, int64_t tokens) const {
    std::vector<uint8_t> kept(full_.heads(), 1);
    const std::vector<uint8_t> all = kept;
    for (const AttentionSite& site : full_.attentions()) {
      std::ranges::fill(std::span(kept).subspan(site.first + heads, site.heads.size() - heads), 0);
    }
    return static_cast<double>(cost_of(summary_, all, tokens).multiply_adds) /
           static_cast<double>(cost_of(summary_, kept, tokens).multiply_adds);
  }

  /// With the first heads of every layer; written when first asked for.
  std::filesystem::path folder(int64_t heads, PruneForm form) {
    const std::filesystem::path path =
        temporary_.path() / fmt::format("{}-{}", to_string(form), heads);
    if (std::filesystem::exists(path)) return path;
    std::vector<std::string> drop;
    for (const AttentionSite& site : full_.attentions()) {
      for (int64_t h = heads; h < std::ssize(site.heads); ++h) drop.push_back(site.head_name(h));
    }
    prune(full_, drop, {.form = form, .out = path});
    return path;
  }

  const Options& options_;
  Report& report_;
  Harness harness_;
  ModelFolders folders_;
  TemporaryFolder temporary_;
  std::filesystem::path folder_;
  ModelSummary summary_;
  Model full_;
  std::unique_ptr<Peer> peer_;
};

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  using namespace headwise::bench;
  return run_benchmark(
      argc, argv, "bench prune: compact models, whole ones, and masked ones in transformers",
      [](const Options& options, Report& report) { PruneBenchmark(options, report).run(); });
}
