// Builds or loads the tokenizer and the model, and reads the data.
#include "train/training_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "headwise/core/error.h"
#include "headwise/io/json_text.h"
#include "headwise/io/model_folder.h"
#include "headwise/kernels/simd.h"
#include "io/file.h"
#include "io/file_hash.h"
#include "model/sentence_modules.h"
#include "train/adapt.h"
#include "train/scratch.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

/// What belongs to a model folder beside its config and weights.
constexpr auto kBeside = std::to_array<std::string_view>({
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "target.spm",
    "generation_config.json",
});

/// The same for a training, by names inside the source's folder: also what makes it a sentence
/// encoder, unless it becomes a classifier, which is none any more.
std::vector<fs::path> files_beside(const TrainSettings& settings, const fs::path& source) {
  std::vector<fs::path> names(kBeside.begin(), kBeside.end());
  if (settings.task == TrainTask::similarity) {
    names.insert(names.end(), {"modules.json", "sentence_bert_config.json",
                               "config_sentence_transformers.json"});
    for (const SentenceModule& module : read_sentence_modules(source)) {
      const auto* const pooling = std::get_if<PoolingModule>(&module);
      if (pooling != nullptr) names.push_back(pooling->place / "config.json");
    }
  }
  std::erase_if(names, [&](const fs::path& name) { return !fs::is_regular_file(source / name); });
  return names;
}

Task task_of(TrainTask task) {
  switch (task) {
    case TrainTask::causal_lm:
      return Task::causal_lm;
    case TrainTask::masked_lm:
      return Task::masked_lm;
    case TrainTask::classification:
      return Task::classify;
    case TrainTask::similarity:
      return Task::hidden;
    case TrainTask::translation:
      return Task::seq2seq_lm;
  }
  return Task::hidden;
}

Documents documents_of(const TrainSettings& settings) {
  return settings.task == TrainTask::causal_lm && !settings.data.document_lines ? Documents::files
                                                                                : Documents::lines;
}

void train_tokenizer(const TrainSettings& settings, const fs::path& folder,
                     const std::function<void()>& check) {
  BpeTrainer trainer;
  const ReadOptions options{.progress = [&check](int64_t) { check(); }};
  const Files& files = settings.data.train.files;
  if (settings.task == TrainTask::classification || settings.task == TrainTask::similarity) {
    add_words_of_columns(files, settings.task == TrainTask::similarity ? 2 : 1, trainer, options);
  } else {
    add_words(files, documents_of(settings), trainer, options);
  }
  BpeSettings params = bpe_settings(settings.scratch->architecture);
  params.vocabulary = settings.scratch->vocabulary;
  params.longest_text = settings.scratch->positions;
  trainer.train(params, folder);
}

/// How transformers and `headwise run` write text with a new model.
void write_generation(const ModelConfig& config, const TrainSettings& settings,
                      const fs::path& folder) {
  nlohmann::ordered_json options = {{"_from_model_config", false}};
  const auto set = [&](const char* name, const std::optional<int32_t>& id) {
    if (id) options[name] = *id;
  };
  set("bos_token_id", config.bos);
  if (!config.eos.empty()) options["eos_token_id"] = config.eos.front();
  set("pad_token_id", config.pad);
  if (settings.task == TrainTask::translation) {
    set("decoder_start_token_id", config.decoder_start);
    set("forced_eos_token_id", config.forced_eos);
    if (config.pad) options["bad_words_ids"] = {{*config.pad}};
    options["num_beams"] = settings.evaluate.beam;
    options["max_length"] = config.max_positions;
  }
  write_file_whole(folder / "generation_config.json", json_text(options, 2));
}

class DataReader {
 public:
  DataReader(const TrainSettings& settings, const Tokenizer& tokenizer,
             const std::function<void()>& check)
      : settings_(settings), tokenizer_(tokenizer) {
    options_ = {.length = settings.data.length,
                .truncate = settings.data.truncate,
                .progress = [&check](int64_t) { check(); }};
  }

  /// Labels are collected from what is trained on if there are none.
  TrainingData read_all(const ModelConfig& config, std::vector<std::string>& labels) const {
    TrainingData data;
    data.train = read(settings_.data.train, config, labels);
    data.validation = read(settings_.data.validation, config, labels);
    data.test = read(settings_.data.test, config, labels);
    return data;
  }

 private:
  Examples read(const DataFiles& data, const ModelConfig& config,
                std::vector<std::string>& labels) const {
    if (data.empty()) return {};
    ReadOptions options = options_;
    if (settings_.data.default_length && config.max_positions > 0) {
      options.length = std::min(options.length, config.max_positions);
    }
    switch (settings_.task) {
      case TrainTask::causal_lm:
        return read_causal_lm(data.files, documents_of(settings_), tokenizer_, config, options);
      case TrainTask::masked_lm:
        return read_masked_lm(data.files, tokenizer_, config, options);
      case TrainTask::classification:
        return read_classification(data.files, labels, tokenizer_, config, options);
      case TrainTask::similarity:
        return read_similarity(data.files, tokenizer_, config, options);
      case TrainTask::translation:
        return read_translation(data.files[0], data.files[1], tokenizer_, config, options);
    }
    return {};
  }

  const TrainSettings& settings_;
  const Tokenizer& tokenizer_;
  ReadOptions options_;
};

fs::path source_of(const TrainSettings& settings) {
  return settings.scratch ? fs::path() : find_model(settings.model.string());
}

TrainingSetup set_up_new(const TrainSettings& settings, const fs::path& folder,
                         const std::function<void()>& check) {
  const bool resumed = Checkpoints(folder / "checkpoint").exist();
  if (!resumed || !fs::exists(folder / "tokenizer.json")) train_tokenizer(settings, folder, check);
  check();
  Tokenizer tokenizer = Tokenizer::load(folder);
  const DataReader reader(settings, tokenizer, check);
  ScratchContext context{
      .task = settings.task, .vocabulary = tokenizer.size(), .special = tokenizer.special_tokens()};
  const ModelConfig sizes = parse_config(scratch_config(*settings.scratch, context), "the model");
  TrainingData data = reader.read_all(sizes, context.labels);
  TrainableModel model =
      TrainableModel::create(scratch_config(*settings.scratch, context),
                             {.seed = settings.seed, .same_heads = settings.scratch->same_heads});
  return {.tokenizer = std::move(tokenizer), .model = std::move(model), .data = std::move(data)};
}

TrainingSetup set_up_loaded(const TrainSettings& settings, const fs::path& source,
                            const std::function<void()>& check) {
  const ModelConfig config = read_config(source);
  check_class(config, task_of(settings.task));
  Tokenizer tokenizer = Tokenizer::load(source);
  const DataReader reader(settings, tokenizer, check);
  std::vector<std::string> labels;
  if (config.task == Task::classify) labels = config.labels;
  TrainingData data = reader.read_all(config, labels);
  TrainableModel model = TrainableModel::load(
      source, {.task = task_of(settings.task), .labels = labels, .seed = settings.seed});
  return {.tokenizer = std::move(tokenizer), .model = std::move(model), .data = std::move(data)};
}

}  // namespace

TrainIdentity identify(const TrainSettings& settings, const fs::path& folder) {
  TrainIdentity identity{
      .settings = settings.identity, .seed = settings.seed, .simd = simd_target()};
  const auto add = [&](const char* name, const DataFiles& data) {
    for (size_t i = 0; i < data.files.size(); ++i) {
      const std::string place = i == 0 ? name : fmt::format("{}, file {}", name, i + 1);
      identity.files[place] = file_identity(data.files[i]);
    }
  };
  add("data.train", settings.data.train);
  add("data.validation", settings.data.validation);
  add("data.test", settings.data.test);
  if (settings.scratch) {
    identity.files["tokenizer.json"] = file_identity(folder / "tokenizer.json");
    return identity;
  }
  const fs::path source = source_of(settings);
  const auto add_of_model = [&](const std::string& name) {
    if (!fs::is_regular_file(source / name)) return;
    identity.files["the model's " + name] = file_identity(source / name);
  };
  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    if (name == "config.json" || name.ends_with(".safetensors")) add_of_model(name);
  }
  for (const fs::path& name : files_beside(settings, source)) add_of_model(name.string());
  return identity;
}

TrainingSetup set_up(const TrainSettings& settings, const fs::path& folder,
                     const std::function<void()>& check) {
  const fs::path source = source_of(settings);
  TrainingSetup setup = settings.scratch ? set_up_new(settings, folder, check)
                                         : set_up_loaded(settings, source, check);
  setup.identity = identify(settings, folder);
  setup.source = source;
  return setup;
}

void write_beside(const TrainSettings& settings, const TrainingSetup& setup,
                  const fs::path& folder) {
  if (!settings.scratch) {
    for (const fs::path& name : files_beside(settings, setup.source)) {
      make_folder((folder / name).parent_path());
      write_file_whole(folder / name, read_file(setup.source / name));
    }
  } else if (setup.model.config().decoder.layers() > 0) {
    write_generation(setup.model.config(), settings, folder);
  }
}

}  // namespace headwise
