// Reads the settings of a training field by field; what is not read is refused.
#include "headwise/train/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "io/file.h"
#include "train/scratch.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kLargestSettings = 1 << 20;
constexpr int64_t kMostSteps = int64_t{1} << 40;

template <class Enum>
struct Word {
  std::string_view word;
  Enum value;
};

constexpr auto kTasks = std::to_array<Word<TrainTask>>({
    {"causal_lm", TrainTask::causal_lm},
    {"masked_lm", TrainTask::masked_lm},
    {"classification", TrainTask::classification},
    {"similarity", TrainTask::similarity},
    {"translation", TrainTask::translation},
});
constexpr auto kSchedules = std::to_array<Word<ScheduleKind>>({
    {"constant", ScheduleKind::constant},
    {"linear", ScheduleKind::linear},
    {"cosine", ScheduleKind::cosine},
    {"inverse_sqrt", ScheduleKind::inverse_sqrt},
});
constexpr auto kMetrics = std::to_array<Word<Metric>>({
    {"loss", Metric::loss},
    {"accuracy", Metric::accuracy},
    {"bleu", Metric::bleu},
});

constexpr auto kDocuments = std::to_array<Word<bool>>({{"files", false}, {"lines", true}});
constexpr auto kGateKinds = std::to_array<Word<bool>>({{"hard_concrete", true}});
constexpr auto kGateWeights = std::to_array<Word<bool>>({{"trained", true}, {"frozen", false}});

template <class Enum, size_t N>
Enum one_of(const JsonObject& object, std::string_view name,
            const std::array<Word<Enum>, N>& known) {
  const std::string& got = object.text(name);
  std::vector<std::string_view> words;
  for (const auto& [word, value] : known) {
    if (got == word) return value;
    words.push_back(word);
  }
  object.refuse(name, "a setting is not known", fmt::format("one of {}", fmt::join(words, ", ")));
}

template <class Enum, size_t N>
std::string_view word_for(Enum value, const std::array<Word<Enum>, N>& known) {
  return std::ranges::find(known, value, &Word<Enum>::value)->word;
}

struct Range {
  double least, most;
  bool open = false;  // `most` itself is too much
};

double number_in(const JsonObject& object, std::string_view name, double otherwise, Range range) {
  const double value = object.optional_number(name).value_or(otherwise);
  if (value >= range.least && (range.open ? value < range.most : value <= range.most)) return value;
  object.refuse(name, "a number is out of range",
                fmt::format("from {} to {}{}", range.least, range.most,
                            range.open ? ", which is excluded" : ""));
}

constexpr Range kShare = {0, 1, true};

float share(const JsonObject& object, std::string_view name, double otherwise) {
  return static_cast<float>(number_in(object, name, otherwise, kShare));
}

/// One path or several; absolute.
std::vector<fs::path> read_paths(const JsonObject& object, std::string_view name,
                                 const fs::path& folder) {
  std::vector<fs::path> paths;
  const auto add = [&](const std::string& path) {
    if (path.empty()) object.refuse(name, "the name of a file is empty", "a file");
    paths.push_back(fs::absolute(folder / path).lexically_normal());
  };
  if (object.value(name).is_array()) {
    for (const std::string& path : object.texts(name)) add(path);
    if (paths.empty()) object.refuse(name, "no file is named", "at least one");
  } else if (object.value(name).is_string()) {
    add(object.text(name));
  } else {
    object.refuse(name, "not the name of a file", "a file, or a list of files");
  }
  return paths;
}

DataFiles read_files(const JsonObject& data, std::string_view name, TrainTask task,
                     const fs::path& folder) {
  if (!data.has(name)) return {};
  if (task != TrainTask::translation) {
    if (data.value(name).is_object()) {
      data.refuse(name, "two sides are for translation",
                  fmt::format("a file, or a list of files, for {}", to_string(task)));
    }
    return {.files = read_paths(data, name, folder)};
  }
  if (!data.value(name).is_object()) {
    data.refuse(name, "translation needs two parallel files",
                R"({"source": "a.en", "target": "a.de"})");
  }
  const JsonObject sides = data.object(name);
  sides.only({"source", "target"});
  DataFiles both;
  for (const char* side : {"source", "target"}) {
    const std::vector<fs::path> files = read_paths(sides, side, folder);
    if (files.size() != 1) sides.refuse(side, "more than one file", "one file on each side");
    both.files.push_back(files.front());
  }
  return both;
}

DataSettings read_data(const JsonObject& data, TrainTask task, const fs::path& folder) {
  data.only({"train", "validation", "test", "length", "truncate", "documents"});
  DataSettings result;
  result.train = read_files(data, "train", task, folder);
  if (result.train.empty()) data.refuse("train", "there is nothing to train on", "a file");
  result.validation = read_files(data, "validation", task, folder);
  result.test = read_files(data, "test", task, folder);
  result.length = data.optional_integer("length", 2, 1 << 16).value_or(result.length);
  result.default_length = !data.has("length");
  if (data.has("truncate") && task == TrainTask::causal_lm) {
    data.refuse("truncate", "causal_lm cuts texts into blocks, and leaves nothing out", "nothing");
  }
  result.truncate = data.optional_boolean("truncate").value_or(false);
  if (data.has("documents")) {
    if (task != TrainTask::causal_lm) {
      data.refuse("documents", "only causal_lm joins documents", "nothing");
    }
    result.document_lines = one_of(data, "documents", kDocuments);
  }
  return result;
}

OptimizerSettings read_optimizer(const JsonObject& object) {
  object.only({"rate", "beta1", "beta2", "epsilon", "decay", "clip"});
  OptimizerSettings o;
  o.rate = number_in(object, "rate", o.rate, {0, 10});
  o.beta1 = number_in(object, "beta1", o.beta1, kShare);
  o.beta2 = number_in(object, "beta2", o.beta2, kShare);
  o.epsilon = number_in(object, "epsilon", o.epsilon, {1e-30, 1});
  o.decay = number_in(object, "decay", o.decay, {0, 10});
  o.clip = number_in(object, "clip", o.clip, {0, 1e30});
  return o;
}

ScheduleSettings read_schedule(const JsonObject& object) {
  object.only({"kind", "warmup"});
  ScheduleSettings schedule;
  if (object.has("kind")) schedule.kind = one_of(object, "kind", kSchedules);
  schedule.warmup = object.optional_integer("warmup", 0, kMostSteps).value_or(0);
  return schedule;
}

EvaluateSettings read_evaluate(const JsonObject& object, TrainTask task) {
  object.only({"every", "metric", "beam", "patience"});
  EvaluateSettings evaluate;
  evaluate.every = object.optional_integer("every", 1, kMostSteps).value_or(0);
  evaluate.metric = object.has("metric")                ? one_of(object, "metric", kMetrics)
                    : task == TrainTask::classification ? Metric::accuracy
                                                        : Metric::loss;
  if (evaluate.metric == Metric::bleu && task != TrainTask::translation) {
    object.refuse("metric", "BLEU is for translation", "loss or accuracy");
  }
  if (evaluate.metric == Metric::accuracy && task == TrainTask::similarity) {
    object.refuse("metric", "similarity has no accuracy", "loss");
  }
  if (object.has("beam") && task != TrainTask::translation) {
    object.refuse("beam", "beam search is for translation", "nothing");
  }
  evaluate.beam = object.optional_integer("beam", 1, 64).value_or(evaluate.beam);
  evaluate.patience = object.optional_integer("patience", 1, 1 << 20).value_or(0);
  return evaluate;
}

/// Without what says only where files lie, and the seed, which may come from elsewhere.
std::string identity_of(json settings) {
  settings.erase("seed");
  if (settings["model"].is_string()) settings.erase("model");
  for (const char* part : {"train", "validation", "test"}) settings["data"].erase(part);
  return settings.dump();
}

json as_json(const std::vector<fs::path>& paths) {
  json all = json::array();
  for (const fs::path& path : paths) all.push_back(path.string());
  return all.size() == 1 ? all.front() : all;
}

std::string with_absolute_paths(json settings, const TrainSettings& read) {
  if (!read.scratch) settings["model"] = read.model.string();
  for (const auto& [name, files] :
       {std::pair("train", &read.data.train), std::pair("validation", &read.data.validation),
        std::pair("test", &read.data.test)}) {
    if (files->empty()) continue;
    settings["data"][name] =
        read.task == TrainTask::translation
            ? json{{"source", files->files[0].string()}, {"target", files->files[1].string()}}
            : as_json(files->files);
  }
  return json_text(settings, 2);
}

void read_model(const JsonObject& object, const fs::path& folder, TrainSettings& settings) {
  if (object.value("model").is_object()) {
    const JsonObject model = object.object("model");
    settings.scratch = read_scratch(model, settings.task);
    if (settings.scratch->positions < settings.data.length) {
      model.refuse("max_position_embeddings", "texts may be longer than the model's positions",
                   fmt::format("at least {}, the length of data", settings.data.length));
    }
    return;
  }
  if (!object.value("model").is_string() || object.text("model").empty()) {
    object.refuse("model", "no model", "a folder or an id, or an object that describes a new one");
  }
  // A folder beside the settings, or else an id in the cache, which is no path.
  const fs::path beside = fs::absolute(folder / object.text("model")).lexically_normal();
  std::error_code ignored;
  settings.model = fs::exists(beside, ignored) ? beside : fs::path(object.text("model"));
}

LearnedGates read_gates(const JsonObject& gates) {
  gates.only({"kind", "l0", "weights", "rate"});
  (void)one_of(gates, "kind", kGateKinds);
  LearnedGates result{.l0 = gates.number("l0")};
  if (!(result.l0 >= 0) || !std::isfinite(result.l0)) {
    gates.refuse("l0", "the weight of a penalty cannot be this", "0 or more");
  }
  if (gates.has("weights")) result.train_weights = one_of(gates, "weights", kGateWeights);
  result.rate = gates.optional_number("rate").value_or(result.rate);
  if (!(result.rate > 0) || !std::isfinite(result.rate)) {
    gates.refuse("rate", "gates cannot be learned at this rate", "above 0");
  }
  return result;
}

void read_length_of_training(const JsonObject& object, TrainSettings& settings) {
  settings.epochs = object.optional_integer("epochs", 1, 1 << 20).value_or(0);
  settings.steps = object.optional_integer("steps", 1, kMostSteps).value_or(0);
  if ((settings.epochs > 0) == (settings.steps > 0)) {
    object.refuse("epochs", "how long to train is not said, or said twice",
                  "either \"epochs\" or \"steps\"");
  }
}

}  // namespace

std::string_view to_string(TrainTask task) { return word_for(task, kTasks); }
std::string_view to_string(Metric metric) { return word_for(metric, kMetrics); }

TrainSettings parse_train_settings(std::string_view text, const std::string& where,
                                   const fs::path& folder) {
  const json parsed = parse_json(text, where);
  const JsonObject object(parsed, where);
  object.only({"task", "model", "data", "tokens_per_batch", "accumulate", "epochs", "steps", "seed",
               "optimizer", "schedule", "dropout", "attention_dropout", "head_dropout",
               "label_smoothing", "gates", "log_heads_every", "freeze", "evaluate", "keep"});
  TrainSettings s{.task = one_of(object, "task", kTasks)};
  s.data = read_data(object.object("data"), s.task, folder);
  read_model(object, folder, s);
  s.tokens_per_batch =
      object.optional_integer("tokens_per_batch", 1, 1 << 24).value_or(s.tokens_per_batch);
  s.accumulate = object.optional_integer("accumulate", 1, 1 << 16).value_or(1);
  read_length_of_training(object, s);
  s.seed = static_cast<uint64_t>(object.optional_integer("seed").value_or(0));
  if (const auto optimizer = object.optional_object("optimizer")) {
    s.optimizer = read_optimizer(*optimizer);
  }
  if (const auto schedule = object.optional_object("schedule")) {
    s.schedule = read_schedule(*schedule);
  }
  s.dropout = share(object, "dropout", s.dropout);
  s.attention_dropout = share(object, "attention_dropout", 0);
  s.head_dropout = share(object, "head_dropout", 0);
  s.label_smoothing = share(object, "label_smoothing", 0);
  if (s.label_smoothing > 0 && s.task == TrainTask::similarity) {
    object.refuse("label_smoothing", "similarity has no labels to smooth", "nothing");
  }
  if (const auto gates = object.optional_object("gates")) s.gates = read_gates(*gates);
  s.log_heads_every = object.optional_integer("log_heads_every", 1, kMostSteps).value_or(0);
  if (object.has("freeze")) s.freeze = object.texts("freeze");
  const json none = json::object();
  const auto evaluate = object.optional_object("evaluate");
  s.evaluate = read_evaluate(evaluate ? *evaluate : JsonObject(none, where), s.task);
  if (evaluate && s.data.validation.empty()) {
    object.refuse("evaluate", "there is nothing to evaluate on", "data.validation",
                  "name a file there, or remove \"evaluate\"");
  }
  if (const auto keep = object.optional_object("keep")) {
    keep->only({"average", "every"});
    s.average = keep->optional_integer("average", 2, 1000).value_or(0);
    s.checkpoint_every = keep->optional_integer("every", 1, kMostSteps).value_or(0);
    if (s.average > 0 && s.data.validation.empty()) {
      keep->refuse("average", "what is averaged are evaluated states, and nothing is evaluated",
                   "data.validation");
    }
    if (s.average > 0 && s.gates) {
      keep->refuse("average", "with gates the last state is kept", "nothing");
    }
  }
  s.identity = identity_of(parsed);
  s.text = with_absolute_paths(parsed, s);
  return s;
}

TrainSettings read_train_settings(const fs::path& file) {
  return parse_train_settings(read_file(file, kLargestSettings), file.string(), file.parent_path());
}

}  // namespace headwise
