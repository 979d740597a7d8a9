// headwise train as its users run it: every task, and trainings that are killed, resumed, refused.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "headwise/core/random.h"
#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kWords[] = {"red", "big", "cat", "dog", "sees", "runs", "the", "a", "house"};
constexpr const char* kOthers[] = {"rot",   "gross", "katze", "hund", "sieht",
                                   "rennt", "der",   "ein",   "haus"};

/// `count` lines of words at random; line i of two files with the same seed say the same.
std::string lines(const char* const* words, int count, uint64_t seed) {
  Random random(seed);
  std::string text;
  for (int line = 0; line < count; ++line) {
    const uint32_t length = 3 + random.below(5);
    for (uint32_t i = 0; i < length; ++i) {
      if (i > 0) text += ' ';
      text += words[random.below(9)];
    }
    text += '\n';
  }
  return text;
}

json new_model(const char* architecture) {
  return {{"architecture", architecture},  {"hidden_size", 16}, {"layers", 1},       {"heads", 2},
          {"max_position_embeddings", 32}, {"vocab_size", 300}, {"feed_forward", 32}};
}

class Train : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("train.txt", lines(kWords, 120, 1));
    folder_.write("validation.txt", lines(kWords, 12, 2));
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  std::string settings(const json& settings, const std::string& name = "settings.json") const {
    return folder_.write(name, settings.dump()).string();
  }

  /// A language model whose training takes a few hundred milliseconds.
  json small() const {
    return {{"task", "causal_lm"},
            {"model", new_model("gpt2")},
            {"data", {{"train", "train.txt"}, {"validation", "validation.txt"}, {"length", 16}}},
            {"tokens_per_batch", 64},
            {"accumulate", 2},
            {"steps", 30},
            {"optimizer", {{"rate", 0.01}}},
            {"schedule", {{"kind", "cosine"}, {"warmup", 5}}},
            {"head_dropout", 0.1},
            {"evaluate", {{"every", 10}}},
            {"keep", {{"average", 2}, {"every", 4}}},
            {"seed", 3}};
  }

  ProgramResult train(const json& settings_json, const std::string& out,
                      const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"train", settings(settings_json), "-o", path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }

  json summary(const json& settings_json, const std::string& out) const {
    const ProgramResult result = train(settings_json, out, {"--json", "--quiet"});
    EXPECT_EQ(result.code, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    return json::parse(result.out);
  }

  std::string weights(const std::string& out) const {
    return contents_of(folder_.path() / out / "model.safetensors");
  }

  /// The records of log.jsonl without what tells the time.
  std::vector<json> log(const std::string& out) const {
    std::vector<json> records;
    std::istringstream text(contents_of(folder_.path() / out / "log.jsonl"));
    for (std::string line; std::getline(text, line);) {
      json record = json::parse(line);
      record.erase("seconds");
      record.erase("tokens_per_second");
      records.push_back(record);
    }
    return records;
  }

  TemporaryFolder folder_;
};

/// Runs the program with `prepare` called in the child; kills it by `signal` once `wait` returns.
int run_and_kill(const std::vector<std::string>& arguments, const std::function<void()>& wait,
                 int signal, void (*prepare)() = nullptr) {
  std::vector<const char*> argv = {"headwise"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    if (prepare != nullptr) prepare();
    execv(program_path().c_str(), const_cast<char* const*>(argv.data()));
    _exit(127);
  }
  if (wait) {
    wait();
    kill(child, signal);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// The same after some time; 0: it is not killed.
int run_and_kill(const std::vector<std::string>& arguments, int milliseconds, int signal,
                 void (*prepare)() = nullptr) {
  const auto sleep = [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); };
  return run_and_kill(arguments, milliseconds > 0 ? std::function<void()>(sleep) : nullptr, signal,
                      prepare);
}

/// Returns once a training has logged a step, or after a minute.
std::function<void()> first_step_of(const fs::path& folder) {
  return [log = folder / "log.jsonl"] {
    std::error_code none;
    for (int tries = 0; tries < 60'000 && (!fs::exists(log) || fs::file_size(log, none) == 0);
         ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
}

TEST_F(Train, LeavesAFolderThatLoads) {
  const json told = summary(small(), "out");
  EXPECT_EQ(told["task"], "causal_lm");
  EXPECT_EQ(told["steps"], 30);
  EXPECT_EQ(told["layers"][0]["heads"], 2);
  EXPECT_TRUE(told["kept"]["state"] == "best" || told["kept"]["state"] == "average");
  EXPECT_LT(told["validation"]["loss"].get<double>(), 5);
  EXPECT_EQ(json::parse(contents_of(folder_.path() / "out/summary.json")), told);
  EXPECT_FALSE(fs::exists(folder_.path() / "out/checkpoint"));
  const std::vector<json> records = log("out");
  ASSERT_EQ(records.size(), 33u);  // and three evaluations
  EXPECT_EQ(records[0]["step"], 1);
  EXPECT_EQ(records[10]["evaluation"], "validation");
  EXPECT_GT(records[0]["loss"].get<double>(), told["validation"]["loss"].get<double>());

  const ProgramResult written = run_program({"run", path("out"), "--text", "the big", "--json"});
  EXPECT_EQ(written.code, 0) << written.errors;
  EXPECT_EQ(run_program({"inspect", path("out")}).code, 0);
}

TEST_F(Train, WithTheSameSeedGivesTheSameBits) {
  json one = small();
  one["steps"] = 8;
  (void)summary(one, "a");
  (void)train(one, "b", {"--threads", "1"});
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_EQ(log("a"), log("b"));
  const ProgramResult other = train(one, "c", {"--seed", "4"});
  EXPECT_EQ(other.code, 0) << other.errors;
  EXPECT_NE(weights("a"), weights("c"));
  EXPECT_THAT(other.errors, HasSubstr("new gpt2, width 16, 1 layers, 2 heads of 8"));
}

TEST_F(Train, KilledAtAnyMomentAndResumedEndsWithTheSameBits) {
  (void)summary(small(), "whole");
  Random random(7);
  int kills = 0;
  for (int round = 0; kills < 20; ++round) {
    const std::string out = "killed" + std::to_string(round);
    for (int code = -1; code != 0;) {
      const std::string threads = random.below(2) == 0 ? "1" : "2";
      code = run_and_kill(
          {"train", path("settings.json"), "-o", path(out), "--resume", "--threads", threads},
          kills < 20 ? 10 + static_cast<int>(random.below(250)) : 0, SIGKILL);
      ASSERT_TRUE(code == 0 || code == -SIGKILL) << code;
      kills += code == -SIGKILL ? 1 : 0;
    }
    EXPECT_EQ(weights(out), weights("whole"));
    EXPECT_EQ(log(out), log("whole"));
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path() / out)) {
      EXPECT_FALSE(entry.path().filename().string().ends_with(".part")) << entry.path();
    }
  }
}

TEST_F(Train, InterruptedLeavesACheckpointToGoOnFrom) {
  json longer = small();
  longer["steps"] = 1000;
  longer["schedule"]["kind"] = "constant";
  (void)summary(longer, "whole");
  const std::string file = settings(longer);
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string out = "stopped" + std::to_string(signal);
    const auto started = first_step_of(folder_.path() / out);
    EXPECT_EQ(run_and_kill({"train", file, "-o", path(out)}, started, signal), 130);
    EXPECT_TRUE(fs::exists(folder_.path() / out / "checkpoint/state.safetensors"));
    EXPECT_EQ(train(longer, out, {"--resume"}).code, 0);
    EXPECT_EQ(weights(out), weights("whole"));
    EXPECT_EQ(log(out), log("whole"));
  }
}

TEST_F(Train, KeepsNoMoreSnapshotsThanItNeeds) {
  json longer = small();
  longer["steps"] = 100000;
  longer["evaluate"]["every"] = 1;
  longer["keep"] = {{"average", 2}, {"every", 100000}};
  ASSERT_EQ(run_and_kill({"train", settings(longer), "-o", path("out")}, 1500, SIGKILL), -SIGKILL);
  int64_t snapshots = 0;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "out/checkpoint")) {
    if (entry.path().filename().string().starts_with("step-")) ++snapshots;
  }
  EXPECT_GE(snapshots, 1);
  EXPECT_LE(snapshots, 2 + 1 + 1);  // of the average, the best, and one that was just written
}

TEST_F(Train, RefusesToGoOnWithAnotherTraining) {
  json longer = small();
  longer["steps"] = 3000;
  const std::string file = settings(longer);
  const auto started = first_step_of(folder_.path() / "out");
  ASSERT_EQ(run_and_kill({"train", file, "-o", path("out")}, started, SIGTERM), 130);
  const std::string before = contents_of(folder_.path() / "out/checkpoint/state.safetensors");
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", file, "-o", path("out"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, 1) << result.errors;
    return json::parse(result.out)["error"];
  };
  EXPECT_THAT(refused({})["hint"], HasSubstr("--resume"));
  EXPECT_THAT(refused({"--resume", "--seed", "9"})["what"], HasSubstr("seed"));
  longer["dropout"] = 0.3;
  settings(longer);
  EXPECT_THAT(refused({"--resume"})["what"], HasSubstr("another one: dropout"));
  longer.erase("dropout");
  longer["model"]["heads"] = 4;
  settings(longer);
  const json heads = refused({"--resume"});
  EXPECT_THAT(heads["what"], HasSubstr("model.heads"));
  EXPECT_EQ(heads["got"], "4");
  longer["model"]["heads"] = 2;
  settings(longer);
  folder_.write("train.txt", lines(kWords, 121, 1));
  EXPECT_THAT(refused({"--resume"})["what"], HasSubstr("data.train"));
  EXPECT_EQ(contents_of(folder_.path() / "out/checkpoint/state.safetensors"), before);
}

TEST_F(Train, LeavesFoldersOfOthersAlone) {
  fs::create_directory(folder_.path() / "taken");
  const int held = open(path("taken").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(held, LOCK_EX | LOCK_NB), 0);
  const ProgramResult taken = train(small(), "taken");
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.errors, HasSubstr("another process is writing to it"));
  close(held);
  folder_.write("full/notes.txt", "mine");
  const ProgramResult full = train(small(), "full");
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.errors, HasSubstr("the folder is not empty"));
  EXPECT_EQ(train(small(), "train.txt").code, 1);
}

TEST_F(Train, ResumesOnlyInFoldersOfItsOwn) {
  const auto refused = [&](const std::string& out, const std::string& name) {
    const ProgramResult result = train(small(), out, {"--resume"});
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.errors, HasSubstr("the folder is not empty"));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path() / out), {}), 1);
    return contents_of(folder_.path() / out / name);
  };
  folder_.write("notes/notes.txt", "mine");
  EXPECT_EQ(refused("notes", "notes.txt"), "mine");
  folder_.write("editor/settings.json", R"({"tabs": 2})");
  EXPECT_EQ(refused("editor", "settings.json"), R"({"tabs": 2})");
  folder_.write("page/manifest.json", R"({"name": "page"})");
  EXPECT_EQ(refused("page", "manifest.json"), R"({"name": "page"})");

  // Begun, and killed before the first checkpoint.
  json other = small();
  other["dropout"] = 0.3;
  folder_.write("begun/settings.json", other.dump());
  folder_.write("begun/.tokenizer.json.1.0.part", "");
  EXPECT_THAT(train(small(), "begun", {"--resume"}).errors, HasSubstr("another one: dropout"));
  EXPECT_EQ(train(other, "begun", {"--resume"}).code, 0);
}

TEST_F(Train, LeavesNothingInAnEmptyFolderIfItCannotBegin) {
  json further = small();
  further["model"] = "no-such-model";
  EXPECT_EQ(train(further, "out").code, 1);
  EXPECT_TRUE(fs::is_empty(folder_.path() / "out"));
}

TEST_F(Train, TellsOfADoneTrainingOnlyIfItIsTheSame) {
  const json told = summary(small(), "out");
  fs::create_directory(folder_.path() / "out/checkpoint");  // as if killed at the very end
  const ProgramResult again = train(small(), "out", {"--resume", "--json"});
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(json::parse(again.out), told);
  EXPECT_FALSE(fs::exists(folder_.path() / "out/checkpoint"));
  EXPECT_THAT(train(small(), "out", {"--resume", "--seed", "9"}).errors,
              HasSubstr("another one: seed"));
  json other = small();
  other["dropout"] = 0.3;
  EXPECT_THAT(train(other, "out", {"--resume"}).errors, HasSubstr("another one: dropout"));
  folder_.write("train.txt", lines(kWords, 121, 1));
  EXPECT_THAT(train(small(), "out", {"--resume"}).errors,
              HasSubstr("another one: the contents of data.train"));
}

TEST_F(Train, KeepsTheOldCheckpointWhenTheDiskIsFull) {
  json longer = small();
  longer["steps"] = 400;  // so that many are left when it is killed
  const json whole = summary(longer, "whole");
  const std::string file = settings(longer);
  for (int code = -1; !fs::exists(folder_.path() / "out/checkpoint/state.safetensors");) {
    code = run_and_kill({"train", file, "-o", path("out"), "--resume"}, 150, SIGKILL);
    ASSERT_EQ(code, -SIGKILL);
  }
  const std::string before = contents_of(folder_.path() / "out/checkpoint/state.safetensors");
  const int code = run_and_kill({"train", file, "-o", path("out"), "--resume"}, 0, 0, [] {
    const rlimit limit = {20000, 20000};  // bytes of a file
    setrlimit(RLIMIT_FSIZE, &limit);
  });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(contents_of(folder_.path() / "out/checkpoint/state.safetensors"), before);
  EXPECT_EQ(train(longer, "out", {"--resume"}).code, 0);
  EXPECT_EQ(weights("out"), weights("whole"));
}

TEST_F(Train, TellsWhatIsWrongWithItsSettings) {
  json wrong = small();
  wrong["learning_rate"] = 1;
  const ProgramResult result = train(wrong, "out", {"--json"});
  EXPECT_EQ(result.code, 1);
  const json error = json::parse(result.out)["error"];
  EXPECT_THAT(error["where"], HasSubstr("settings.json: learning_rate"));
  EXPECT_FALSE(fs::exists(folder_.path() / "out"));
  wrong.erase("learning_rate");
  wrong["freeze"] = {"L7"};
  EXPECT_THAT(train(wrong, "out").errors, HasSubstr("one of L0, embeddings"));
  EXPECT_EQ(run_program({"train", path("settings.json")}).code, 2);
}

TEST_F(Train, StopsWhenNothingGetsBetter) {
  json hopeless = small();
  hopeless["steps"] = 200;
  hopeless["optimizer"]["rate"] = 0;
  hopeless["evaluate"] = {{"every", 2}, {"patience", 3}};
  const json told = summary(hopeless, "out");
  EXPECT_EQ(told["steps"], 8);
  EXPECT_TRUE(told["stopped_early"]);
}

TEST_F(Train, MasksThenClassifiesWithTheSameEncoder) {
  json masked = small();
  masked["task"] = "masked_lm";
  masked["model"] = new_model("bert");
  masked["steps"] = 10;
  const json first = summary(masked, "encoder");
  EXPECT_EQ(first["architecture"], "bert");
  std::string rows;
  std::istringstream text(lines(kWords, 60, 5));
  for (std::string line; std::getline(text, line);) {
    rows += line + "\t" + (line.find("cat") == std::string::npos ? "without" : "with") + "\n";
  }
  folder_.write("labels.tsv", rows);
  folder_.write("encoder/modules.json", "[]");  // as sentence encoders have it
  const json classify = {{"task", "classification"},
                         {"model", "encoder"},
                         {"data", {{"train", "labels.tsv"}, {"validation", "labels.tsv"}}},
                         {"tokens_per_batch", 100},
                         {"epochs", 2},
                         {"freeze", {"embeddings"}}};
  const json told = summary(classify, "classifier");
  EXPECT_LT(told["trained_parameters"].get<int>(), told["parameters"].get<int>());
  EXPECT_GT(told["validation"]["accuracy"].get<double>(), 0.4);
  EXPECT_FALSE(fs::exists(folder_.path() / "classifier/modules.json"));
  const ProgramResult run = run_program({"run", path("classifier"), "--text", "the cat", "--json"});
  EXPECT_EQ(run.code, 0) << run.errors;
  const json label = json::parse(run.out)["results"][0]["label"];
  EXPECT_TRUE(label == "with" || label == "without") << label;
  folder_.write("encoder/special_tokens_map.json", "{}");
  EXPECT_THAT(train(classify, "classifier", {"--resume"}).errors,
              HasSubstr("the contents of the model's special_tokens_map.json"));
  json longer = classify;
  longer["data"]["length"] = 33;
  EXPECT_THAT(train(longer, "longer").errors, HasSubstr("1 to 32, the model's positions"));
}

TEST_F(Train, ValidatesWithTheSameMasksForEverySeed) {
  json masked = small();
  masked["task"] = "masked_lm";
  masked["model"] = new_model("bert");
  masked["steps"] = 1;
  (void)summary(masked, "encoder");
  masked["model"] = "encoder";
  masked["optimizer"]["rate"] = 0;
  std::vector<json> found;
  for (const int seed : {1, 2}) {
    masked["seed"] = seed;
    found.push_back(summary(masked, "seed" + std::to_string(seed))["validation"]);
  }
  EXPECT_EQ(found[0], found[1]);
}

TEST_F(Train, LearnsTheSimilarityOfPairs) {
  folder_.write("pairs.tsv", "the cat\tthe cat\t1\nthe cat\ta house\t0\na dog\tthe dog\t0.5\n");
  const json pairs = {{"task", "similarity"},
                      {"model", new_model("bert")},
                      {"data", {{"train", "pairs.tsv"}, {"test", "pairs.tsv"}, {"length", 32}}},
                      {"steps", 3}};
  const json told = summary(pairs, "out");
  EXPECT_FALSE(told.contains("validation"));
  EXPECT_FALSE(told["test"].contains("accuracy"));
  EXPECT_EQ(told["test"]["scored"], 3);
  EXPECT_EQ(told["kept"]["state"], "last");
}

TEST_F(Train, KeepsThePoolingOfASentenceEncoder) {
  fs::copy(golden_model_path("sentence_mean"), folder_.path() / "encoder",
           fs::copy_options::recursive);
  const fs::path modules = folder_.path() / "encoder/modules.json";
  json named = json::parse(contents_of(modules));
  for (json& module : named) {
    if (!module["type"].get<std::string>().ends_with(".Pooling")) continue;
    fs::rename(folder_.path() / "encoder" / module["path"].get<std::string>(),
               folder_.path() / "encoder/pool");
    module["path"] = "pool";
  }
  folder_.write("encoder/modules.json", named.dump());
  folder_.write("encoder/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\na\ndog\n");
  folder_.write("pairs.tsv", "the cat\tthe cat\t1\nthe cat\ta dog\t0\n");
  const json pairs = {{"task", "similarity"},
                      {"model", "encoder"},
                      {"data", {{"train", "pairs.tsv"}, {"length", 16}}},
                      {"steps", 1}};
  (void)summary(pairs, "out");
  EXPECT_EQ(contents_of(folder_.path() / "out/pool/config.json"),
            contents_of(folder_.path() / "encoder/pool/config.json"));
  const ProgramResult run = run_program({"run", path("out"), "--text", "the cat", "--json"});
  EXPECT_EQ(run.code, 0) << run.errors;
}

TEST_F(Train, SaysThatAnArchitectureHasNoSuchTask) {
  (void)summary(small(), "lm");
  json other = small();
  other["model"] = "lm";
  other["task"] = "masked_lm";
  EXPECT_THAT(train(other, "no").errors, HasSubstr("cannot be trained for this task"));
}

TEST_F(Train, TranslatesWithHeadsByKind) {
  folder_.write("a.en", lines(kWords, 60, 4));
  folder_.write("a.de", lines(kOthers, 60, 4));
  json model = new_model("marian");
  model["heads"] = {{"encoder", 4}, {"decoder", 2}, {"cross", 1}};
  const json files = {{"source", "a.en"}, {"target", "a.de"}};
  const json translate = {{"task", "translation"},
                          {"model", model},
                          {"data", {{"train", files}, {"validation", files}, {"length", 24}}},
                          {"tokens_per_batch", 300},
                          {"steps", 6},
                          {"evaluate", {{"every", 3}, {"metric", "bleu"}, {"beam", 2}}}};
  const json told = summary(translate, "out");
  EXPECT_TRUE(told["validation"]["bleu"].is_number());
  EXPECT_EQ(told["layers"][2]["heads"], 1);
  const ProgramResult run = run_program({"run", path("out"), "--text", "the cat", "--json"});
  EXPECT_EQ(run.code, 0) << run.errors;
  EXPECT_EQ(json::parse(run.out)["task"], "translate");
}

TEST_F(Train, FixesRoutesObservesAndGatesHeads) {
  json heads = small();
  heads["model"]["heads"] = 4;
  heads["model"]["fixed"] = {{"L0.H1", "previous"}};
  heads["model"]["routing"] = {{"shared", 1}, {"active", 1}};
  heads["gates"] = {{"kind", "hard_concrete"}, {"l0", 20}, {"rate", 0.5}};
  heads["keep"].erase("average");
  heads["log_heads_every"] = 10;
  const json told = summary(heads, "whole");
  EXPECT_EQ(told["kept"]["state"], "last");
  int64_t observed = 0, open = -1;
  for (const json& record : log("whole")) {
    if (record.contains("open_heads")) open = record["open_heads"]["L0"];
    if (!record.contains("heads")) continue;
    ++observed;
    EXPECT_EQ(record["heads"].size(), 4u);
    EXPECT_EQ(record["heads"]["L0.H1"]["mass_previous"], 1);
    EXPECT_TRUE(record["heads"]["L0.H3"]["gradient_norm"].is_number());
  }
  EXPECT_EQ(observed, 3);
  EXPECT_LT(open, 4) << "so high a price closes heads";
  const ProgramResult inspected = run_program({"inspect", path("whole"), "--json"});
  ASSERT_EQ(inspected.code, 0) << inspected.errors;
  EXPECT_EQ(json::parse(inspected.out)["layers"][0]["heads"], open);
  EXPECT_EQ(told["layers"][0]["heads"], open);
  EXPECT_LT(told["parameters"], told["trained_parameters"]);
  const ProgramResult written = run_program({"run", path("whole"), "--text", "the big", "--json"});
  EXPECT_EQ(written.code, 0) << written.errors;

  for (int code = -1, kills = 0; code != 0; ++kills) {
    code = run_and_kill({"train", path("settings.json"), "-o", path("killed"), "--resume"},
                        kills < 3 ? 200 : 0, SIGKILL);
  }
  EXPECT_EQ(weights("killed"), weights("whole"));
  EXPECT_EQ(log("killed"), log("whole"));
}

}  // namespace
}  // namespace headwise
