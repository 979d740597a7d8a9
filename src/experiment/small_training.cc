// Makes the examples, the models and the measurements of small trainings.
#include "experiment/small_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "core/shuffle.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/train/batches.h"
#include "io/file.h"

namespace headwise {
namespace {

using nlohmann::json;

constexpr uint64_t kTrainSeed = 1, kValidationSeed = 2;  // of the sequences of relations
constexpr uint32_t kInit = 1, kOrder = 2;                // purposes of derived seeds
constexpr int64_t kTokensOfEvaluation = 4096;

class Relations {
 public:
  explicit Relations(const json& settings)
      : keys_(settings.at("keys")), values_(settings.at("values")) {}

  int64_t tokens() const { return keys_ * values_; }
  int64_t classes() const { return values_ * values_ * values_ * values_; }
  int64_t length() const { return 2 * keys_; }

  /// Adds a sequence. `sources` may be null.
  void add(Random& random, Examples& to, SmallTask* sources) const {
    std::vector<int32_t> keys(length());
    for (int64_t t = 0; t < length(); ++t) keys[t] = static_cast<int32_t>(t % keys_);
    permute(keys, random);
    std::vector<int32_t> values(length()), ids(length());
    for (int64_t t = 0; t < length(); ++t) {
      values[t] = static_cast<int32_t>(random.below(static_cast<uint32_t>(values_)));
      ids[t] = keys[t] * static_cast<int32_t>(values_) + values[t];
    }
    const int64_t begin = to.all.source.rows();
    to.all.source.add(ids);
    for (int64_t t = 0; t < length(); ++t) {
      const int64_t same = std::find(keys.begin(), keys.begin() + t, keys[t]) - keys.begin();
      const bool scored = same < t && t >= 2;
      const std::array<int64_t, 4> from = {same, t - 1, t - 2, 0};
      int32_t label = 0;
      for (const int64_t token : from) {
        if (scored) label = label * static_cast<int32_t>(values_) + values[token];
      }
      to.all.labels.push_back(scored ? static_cast<int32_t>(tokens()) + label : kIgnoreIndex);
      if (sources == nullptr) continue;
      const bool apart = scored && std::set(from.begin(), from.end()).size() == from.size();
      for (size_t r = 0; r < from.size(); ++r) {
        sources->sources[r].push_back(apart ? begin + from[r] : -1);
      }
    }
  }

 private:
  int64_t keys_, values_;
};

SmallTask relations_task(const json& settings) {
  const Relations relations(settings);
  SmallTask task{.vocabulary = relations.tokens() + relations.classes(),
                 .positions = relations.length()};
  Random train(kTrainSeed), validation(kValidationSeed);
  for (int64_t s = 0; s < settings.at("sequences"); ++s) relations.add(train, task.train, nullptr);
  for (int64_t s = 0; s < settings.at("validation"); ++s) {
    relations.add(validation, task.validation, &task);
  }
  return task;
}

/// Blocks of the text: validation from its end, training from its beginning.
SmallTask text_task(const json& settings, const std::string& text) {
  const int64_t length = settings.at("length");
  const int64_t train = settings.at("sequences"), validation = settings.at("validation");
  if (std::ssize(text) <= (train + validation) * length) {
    throw Error({.what = "the text is too short for the blocks of the settings",
                 .got = fmt::format("{} characters", text.size()),
                 .expected = fmt::format("more than {}", (train + validation) * length)});
  }
  std::array<int32_t, 256> ids{};
  int32_t known = 0;
  for (const char c : std::set<char>(text.begin(), text.end())) {
    ids[static_cast<unsigned char>(c)] = known++;
  }
  const auto add = [&](int64_t begin, Examples& to) {
    std::vector<int32_t> block(length + 1);
    for (int64_t i = 0; i <= length; ++i)
      block[i] = ids[static_cast<unsigned char>(text[begin + i])];
    to.all.source.add(std::span(block).first(length));
    to.all.labels.insert(to.all.labels.end(), block.begin() + 1, block.end());
  };
  SmallTask task{.vocabulary = known, .positions = length};
  for (int64_t b = 0; b < train; ++b) add(b * length, task.train);
  const int64_t rest = std::ssize(text) - validation * length - 1;
  for (int64_t b = 0; b < validation; ++b) add(rest + b * length, task.validation);
  return task;
}

double loss_of(const Examples& examples, TrainableModel& model, std::span<const float> gates) {
  const Epoch epoch(examples, {.tokens = kTokensOfEvaluation, .shuffle = false}, 0);
  double loss = 0;
  int64_t scored = 0;
  for (int64_t b = 0; b < epoch.batches(); ++b) {
    const Loss one =
        model.evaluate(epoch.batch(b), {.gates = {gates.data(), {1, std::ssize(gates)}}});
    loss += one.nll;
    scored += one.scored;
  }
  return loss / static_cast<double>(scored);
}

/// Adds up weights on the tokens of relations.
class RelationWeights : public ForwardObserver {
 public:
  RelationWeights(const SmallTask& task, int64_t heads)
      : task_(task), sums_(heads, std::vector<double>(kRelations.size())) {}

  void begin(int64_t row) { begin_ = row; }

  void on_z(const AttentionSite&, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3>, View<const float, 2>) override {
    std::vector<int64_t> rows(attention.q_offsets.back());
    std::iota(rows.begin(), rows.end(), 0);
    const AttentionMaps maps = layer.maps(attention, rows);
    for (size_t s = 0; s + 1 < attention.q_offsets.size(); ++s) {
      for (int64_t row = attention.q_offsets[s]; row < attention.q_offsets[s + 1]; ++row) {
        if (task_.sources[0][begin_ + row] < 0) continue;
        ++rows_;
        for (size_t h = 0; h < sums_.size(); ++h) {
          for (size_t r = 0; r < kRelations.size(); ++r) {
            const int64_t key = task_.sources[r][begin_ + row] - begin_ - attention.q_offsets[s];
            sums_[h][r] += maps.row(row, static_cast<int64_t>(h))[key];
          }
        }
      }
    }
  }

  std::vector<std::vector<double>> means() const {
    std::vector<std::vector<double>> means = sums_;
    for (auto& head : means) {
      for (double& weight : head) weight /= static_cast<double>(rows_);
    }
    return means;
  }

 private:
  const SmallTask& task_;
  std::vector<std::vector<double>> sums_;
  int64_t begin_ = 0, rows_ = 0;
};

}  // namespace

SmallTask small_task(const std::string& name, const json& settings, TrialContext& context) {
  SmallTask task = settings.at("kind") == "relations"
                       ? relations_task(settings)
                       : text_task(settings, read_file(context.data(settings.at("file"))));
  task.name = name;
  return task;
}

Examples part_of(const Examples& from, int64_t begin, int64_t count) {
  Examples part;
  const TokenBatch& all = from.all.source;
  for (int64_t e = begin; e < begin + count; ++e) {
    const int64_t first = all.offsets[e], size = all.offsets[e + 1] - first;
    part.all.source.add(std::span(all.ids).subspan(first, size));
    const auto labels = from.all.labels.begin() + first;
    part.all.labels.insert(part.all.labels.end(), labels, labels + size);
  }
  return part;
}

std::string small_config(const SmallTask& task, const json& model) {
  const int64_t width = model.at("width"), heads = model.at("heads"), layers = model.at("layers");
  const int64_t head_dim = model.value("head_dim", width / heads);
  const int64_t value_dim = model.value("value_dim", head_dim);
  json config = {{"architectures", {"GPT2LMHeadModel"}},
                 {"model_type", "headwise_gpt2"},
                 {"n_embd", width},
                 {"n_layer", layers},
                 {"n_head", width % heads == 0 ? heads : 1},
                 {"n_inner", model.at("feed_forward")},
                 {"activation_function", "relu"},
                 {"n_positions", task.positions},
                 {"vocab_size", task.vocabulary},
                 {"initializer_range", model.at("init")}};
  for (int64_t layer = 0; layer < layers; ++layer) {
    config["headwise"]["attention"][fmt::format("L{}", layer)] = {
        {"heads", heads}, {"kv_heads", heads}, {"head_dim", head_dim}, {"value_dim", value_dim}};
  }
  return config.dump();
}

int64_t parameters_of(TrainableModel& model) {
  int64_t count = 0;
  for (const Parameter& parameter : model.parameters()) count += std::ssize(parameter.values);
  return count;
}

uint64_t init_seed(int64_t number, const TrialContext& context) {
  return derived_seed(context.seed(), static_cast<uint64_t>(number), 0, kInit);
}

uint64_t order_seed(int64_t number, const TrialContext& context) {
  return derived_seed(context.seed(), static_cast<uint64_t>(number), 0, kOrder);
}

FineTuneOptions small_training(const json& training, uint64_t order, TrialContext& context) {
  FineTuneOptions options{.tokens_per_batch = training.at("batch"),
                          .optimizer = {.rate = training.at("rate"), .beta2 = 0.98, .decay = 0},
                          .seed = order};
  options.progress = [&context](int64_t done, int64_t steps, double) {
    context.progress(done, steps);
  };
  return options;
}

double validation_loss(const SmallTask& task, TrainableModel& model, std::span<const float> gates) {
  return loss_of(task.validation, model, gates);
}

double training_loss(const SmallTask& task, TrainableModel& model, int64_t count,
                     std::span<const float> gates) {
  return loss_of(part_of(task.train, 0, count), model, gates);
}

std::vector<std::vector<double>> relation_weights(const SmallTask& task, TrainableModel& model) {
  RelationWeights weights(task, model.heads());
  const Epoch epoch(task.validation, {.tokens = kTokensOfEvaluation, .shuffle = false}, 0);
  int64_t row = 0;
  for (int64_t b = 0; b < epoch.batches(); ++b) {
    const TrainingBatch batch = epoch.batch(b);
    weights.begin(row);
    model.evaluate(batch, {.observer = &weights});
    row += batch.source.rows();
  }
  return weights.means();
}

int64_t remove_greedily(const SmallTask& task, TrainableModel& model, int64_t sample, int64_t keep,
                        std::vector<float>& gates, const std::function<void()>& removed) {
  int64_t measured = 0;
  while (true) {
    int64_t least = -1;
    double least_loss = 0;
    for (const AttentionSite& site : model.attentions()) {
      const std::span own(gates.data() + site.first, site.heads.size());
      if (std::ranges::count(own, 1.f) <= keep) continue;
      for (size_t h = 0; h < own.size(); ++h) {
        if (own[h] == 0) continue;
        own[h] = 0;
        const double loss = training_loss(task, model, sample, gates);
        own[h] = 1;
        ++measured;
        if (least >= 0 && loss >= least_loss) continue;
        least = site.first + static_cast<int64_t>(h);
        least_loss = loss;
      }
    }
    if (least < 0) return measured;
    gates[least] = 0;
    if (removed) removed();
  }
}

double multiply_adds(const SmallTask& task, const json& model, int64_t heads) {
  const double width = model.at("width"), inside = model.at("feed_forward");
  const double head_dim =
      model.value("head_dim", model.at("width").get<int64_t>() / model.at("heads").get<int64_t>());
  const double seen = static_cast<double>(task.positions + 1) / 2;
  const double attention = static_cast<double>(heads) * head_dim * (4 * width + 2 * seen);
  return model.at("layers").get<double>() * (attention + 2 * width * inside) +
         width * static_cast<double>(task.vocabulary);
}

}  // namespace headwise
