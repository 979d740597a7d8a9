// What commands that write leave when a call for a file or for memory fails, and in which order
// they have the disk keep what they write.
//
// Every command runs with calls that fail, drawn with a fixed seed: a few of each kind.
// HEADWISE_FAULTS=all tries every call, which takes an hour; HEADWISE_FAULTS=N draws N of each
// kind, or all if they are fewer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

using Contents = std::map<std::string, std::string>;

constexpr size_t kDrawn = 2;  // calls of each kind that fail, one by one

struct Case {
  std::string name{};
  std::vector<std::string> arguments{};  // @ stands for the folder
  std::string out{};
  std::string option = "-o";
  std::string unfinished{};       // with this file missing, `out` is that of a run that was stopped
  std::set<std::string> parts{};  // what a run that was stopped may leave beside `out`
  std::vector<std::string> again{};  // what a run adds that goes on
  bool replaces = false;             // a file that is there
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::vector<Case> cases() {
  const std::vector<std::string> heads = {"--drop", "L0.H1,L1.H2"};
  return {
      {.name = "Train",
       .arguments = {"train", "@/train.json"},
       .out = "trained",
       .unfinished = "summary.json",
       .again = {"--resume"}},
      {
          .name = "Sweep",
          .arguments = {"sweep", "@/sweep.json"},
          .out = "swept",
          .unfinished = "seed=1/measures.json",
      },
      {.name = "Study",
       .arguments = {"study", "@/bert", "--input", "@/text.txt", "--keep", "0.5", "--no-probes"},
       .out = "study",
       .unfinished = "summary.json",
       .again = {"--resume"}},
      {.name = "Observe",
       .arguments = {"observe", "@/bert", "--input", "@/text.txt", "--no-probes"},
       .out = "observed.json",
       .parts = {"observed.json.part"},
       .again = {"--resume"},
       .replaces = true},
      {.name = "Judge",
       .arguments = {"judge", "@/evidence.json"},
       .out = "judged.json",
       .replaces = true},
      {.name = "Plan",
       .arguments = {"plan", "@/verdict.json", "--keep", "0.6"},
       .out = "plan.json",
       .replaces = true},
      {.name = "Prune", .arguments = {"prune", "@/bert", "--drop", "L0.H1,L1.H2"}, .out = "pruned"},
      {.name = "Recover",
       .arguments = {"prune", "@/bert", "--drop", "L0.H1", "--recover", "@/text.txt", "--epochs",
                     "1"},
       .out = "recovered"},
      {.name = "Export",
       .arguments = {"export", "@/bert"},
       .out = "model.onnx",
       .option = "--onnx"},
      {.name = "Report",
       .arguments = {"report", "@/studied"},
       .out = "report.html",
       .replaces = true},
      {.name = "Probes",
       .arguments = {"probes", "--count", "5"},
       .out = "probes",
       .unfinished = "-"},
  };
}

/// Files that hold times: they are whole, but not the same in two runs.
bool has_times(const std::string& name) {
  static const std::set<std::string> kNames = {"summary.json", "report.html", "README.md",
                                               "log.jsonl",    "prune.json",  "measures.json",
                                               "table.json",   "table.md"};
  return kNames.contains(fs::path(name).filename().string());
}

/// The files of a folder, or a file.
Contents contents(const fs::path& path) {
  Contents all;
  if (fs::is_regular_file(path)) all[path.filename().string()] = contents_of(path);
  if (!fs::is_directory(path)) return all;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) {
      all[entry.path().lexically_relative(path).string()] = contents_of(entry.path());
    }
  }
  return all;
}

bool is_part(const fs::path& path) {
  return path.extension() == ".part" || path.string().find(".headwise-part") != std::string::npos;
}

/// A call that the library in front of the program has written down.
struct Call {
  bool failed = false;
  std::string name{}, path{}, second{};
};

std::vector<Call> calls_in(const fs::path& log) {
  std::vector<Call> calls;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    Call call;
    call.failed = line.starts_with('!');
    if (call.failed) line.erase(0, 1);
    std::istringstream fields(line);
    std::getline(fields, call.name, '\t');
    std::getline(fields, call.path, '\t');
    std::getline(fields, call.second, '\t');
    calls.push_back(std::move(call));
  }
  return calls;
}

class Faults : public testing::TestWithParam<Case> {
 protected:
  struct Run {
    ProgramResult result{};
    std::vector<Call> calls{};
  };

  Faults() {
    fs::copy(golden_model_path("bert"), folder_.path() / "bert");
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", lines;
    for (int i = 5; i < 70; ++i) words += "w" + std::to_string(i) + "\n";
    for (int i = 5; i < 27; ++i) {
      lines += "w" + std::to_string(i) + " w" + std::to_string(i + 7) + " w9 w12\n";
    }
    folder_.write("bert/vocab.txt", words);
    folder_.write("text.txt", lines);
    const json settings = {
        {"task", "causal_lm"},
        {"model",
         {{"architecture", "gpt2"},
          {"hidden_size", 16},
          {"layers", 2},
          {"heads", 2},
          {"max_position_embeddings", 16},
          {"vocab_size", 300}}},
        {"data", {{"train", "text.txt"}, {"validation", "text.txt"}, {"length", 16}}},
        {"tokens_per_batch", 128},
        {"evaluate", {{"every", 3}}},
        {"keep", {{"every", 2}}},
        {"steps", 6}};
    folder_.write("train.json", settings.dump());
    folder_.write("sweep.json", R"({"base":"train.json","grid":{"seed":[0,1]}})");
  }

  fs::path out() const { return folder_.path() / GetParam().out; }
  fs::path log() const { return log_.path() / "log"; }

  void prepare() {
    const std::string below = folder_.path().string();
    const std::string command = GetParam().name;
    const std::vector<std::vector<std::string>> before = {
        {"observe", below + "/bert", "--input", below + "/text.txt", "--no-probes", "-o",
         below + "/evidence.json"},
        {"judge", below + "/evidence.json", "-o", below + "/verdict.json"}};
    if (command == "Judge" || command == "Plan") {
      for (const auto& arguments : before) ASSERT_EQ(run_program(arguments).code, 0);
    }
    if (command == "Report") {
      ASSERT_EQ(run_program({"study", below + "/bert", "--input", below + "/text.txt",
                             "--no-probes", "-o", below + "/studied"})
                    .code,
                0);
    }
    restore();
    whole_run_ = run("none", 0);
    ASSERT_EQ(whole_run_.result.code, 0) << whole_run_.result.errors;
    whole_ = contents(out());
    ASSERT_FALSE(whole_.empty());
  }

  /// As before the first run.
  void restore() {
    const std::string name = GetParam().out;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().find(name) != std::string::npos)
        fs::remove_all(entry.path());
    }
    if (GetParam().replaces) folder_.write(name, "old");
  }

  Run run(const std::string& kind, size_t at, bool goes_on = false) {
    std::vector<std::string> arguments = GetParam().arguments;
    for (std::string& argument : arguments) {
      if (argument.starts_with('@')) argument.replace(0, 1, folder_.path().string());
    }
    arguments.insert(arguments.end(),
                     {GetParam().option, out().string(), "--threads", "1", "--quiet"});
    const std::vector<std::string>& again = GetParam().again;
    if (goes_on) arguments.insert(arguments.end(), again.begin(), again.end());
    fs::remove(log());
    Run run;
    run.result = run_program(
        arguments, "",
        {"LD_PRELOAD=" HEADWISE_FAULTS_LIBRARY, "HEADWISE_FAULT=" + kind + " " + std::to_string(at),
         "HEADWISE_FAULT_BELOW=" + folder_.path().string(),
         "HEADWISE_FAULT_LOG=" + log().string()});
    run.calls = calls_in(log());
    return run;
  }

  /// How many calls can fail so.
  size_t count(const std::string& kind) {
    restore();
    const Run run = this->run(kind, 0);
    EXPECT_EQ(run.result.code, 0) << run.result.errors;
    EXPECT_FALSE(run.calls.empty());
    if (run.calls.empty()) return 0;
    return kind == "memory" ? std::stoul(run.calls.back().path) : run.calls.size();
  }

  /// Which of them are tried, from 1.
  static std::vector<size_t> drawn(const std::string& kind, size_t count) {
    const char* const asked = std::getenv("HEADWISE_FAULTS");
    const bool all = asked != nullptr && std::string(asked) == "all" && kind != "memory";
    const size_t wanted = all                ? count
                          : asked == nullptr ? kDrawn
                                             : std::strtoul(asked, nullptr, 10);
    std::vector<size_t> numbers;
    std::mt19937_64 draw(std::hash<std::string>()(kind));
    if (wanted >= count) {
      numbers.resize(count);
      std::iota(numbers.begin(), numbers.end(), size_t{1});
      return numbers;
    }
    std::set<size_t> different;
    while (different.size() < wanted) different.insert(1 + draw() % count);
    return {different.begin(), different.end()};
  }

  std::vector<std::string> left_over() const {
    std::vector<std::string> left;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (is_part(entry.path())) left.push_back(entry.path().string());
    }
    return left;
  }

  bool is_unfinished() const {
    const std::string& missing = GetParam().unfinished;
    return !missing.empty() && fs::is_directory(out()) && !fs::exists(out() / missing);
  }

  bool is_old() const { return GetParam().replaces && contents_of(out()) == "old"; }

  /// Every file is one of the run in which nothing failed; if the run is done, all of them are
  /// there.
  void expect_whole_files(bool all) {
    const Contents there = contents(out());
    for (const auto& [name, text] : there) {
      const auto whole = whole_.find(name);
      if (fs::path(name).extension() == ".json") {
        EXPECT_TRUE(json::accept(text)) << name;
      }
      if (has_times(name)) continue;
      if (whole == whole_.end()) {
        EXPECT_FALSE(all) << name << " is not of this run";
        continue;
      }
      EXPECT_TRUE(text == whole->second) << name << " has other bytes";
    }
    if (!all) return;
    for (const auto& [name, text] : whole_)
      EXPECT_TRUE(there.contains(name)) << name << " is missing";
  }

  /// Done, or an error that says where and why.
  void expect_named(const ProgramResult& result, const std::string& kind) const {
    EXPECT_THAT(result.code, AnyOf(0, 1)) << "ended by a signal, or in another way";
    if (result.code != 1) return;
    if (kind == "memory") {
      EXPECT_THAT(result.errors, testing::StartsWith("headwise: "));
      return;
    }
    const char* const reason = std::strerror(kind == "ENOSPC" ? ENOSPC : EIO);
    EXPECT_THAT(result.errors, AllOf(HasSubstr(folder_.path().string()), HasSubstr(reason)));
  }

  void check(const std::string& kind, size_t at) {
    restore();
    const Run run = this->run(kind, at);
    const auto failed = std::ranges::find(run.calls, true, &Call::failed);
    const std::string call = failed == run.calls.end() ? "" : failed->name + " " + failed->path;
    SCOPED_TRACE(GetParam().name + " " + kind + " " + std::to_string(at) + ": " + call + "\n" +
                 run.result.errors);
    expect_named(run.result, kind);
    if (kind == "EINTR" || kind == "short") {
      EXPECT_EQ(run.result.code, 0) << "not tried again";
    }
    const bool unfinished = is_unfinished();
    if (run.result.code == 0) {
      EXPECT_FALSE(unfinished && GetParam().unfinished != "-");
      expect_whole_files(true);
    } else if (fs::exists(out()) && !is_old()) {
      expect_whole_files(!unfinished);
    }
    // What cannot be removed stays until the next run.
    const bool can_remove =
        failed == run.calls.end() || kind == "ENOSPC" ||
        (failed->name != "remove" && failed->name != "list" && failed->name != "open");
    if (can_remove && !unfinished) {
      for (const std::string& left : left_over()) {
        const bool kept = GetParam().parts.contains(fs::path(left).filename().string());
        EXPECT_TRUE(kept && run.result.code != 0) << "left behind: " << left;
        if (kept) {
          EXPECT_TRUE(json::accept(contents_of(left))) << left;
        }
      }
    }
    run_again();
  }

  void run_again() {
    const bool done = fs::exists(out()) && !is_unfinished();
    if (done && !GetParam().replaces) return;
    const bool goes_on = fs::exists(out()) || !left_over().empty();
    const Run again = run("none", 0, goes_on);
    EXPECT_EQ(again.result.code, 0) << "run again: " << again.result.errors;
    expect_whole_files(true);
    EXPECT_THAT(left_over(), testing::IsEmpty()) << "run again";
  }

  void check_all(const std::vector<std::string>& kinds) {
    prepare();
    if (HasFatalFailure()) return;
    for (const std::string& kind : kinds) {
      size_t tried = 0;
      for (const size_t at : drawn(kind, count(kind))) {
        check(kind, at);
        ++tried;
      }
      RecordProperty(kind, static_cast<int>(tried));
      if (std::getenv("HEADWISE_FAULTS") != nullptr) {
        std::cout << GetParam().name << " " << kind << ": " << tried << " calls failed\n";
      }
    }
  }

  TemporaryFolder folder_, log_;
  Contents whole_{};
  Run whole_run_{};
};

/// What of the files is on the disk for sure.
class Disk {
 public:
  void take(const Call& call) {
    const fs::path path = call.path;
    if (call.name == "create" || call.name == "mkdir") changed_.insert(path.parent_path());
    if (call.name == "write" || call.name == "truncate") changed_.insert(path);
    if (call.name == "fsync") {
      changed_.erase(path);
      std::erase_if(renamed_, [&](const fs::path& name) { return name.parent_path() == path; });
    }
    if (call.name == "remove") {
      EXPECT_THAT(renamed_, testing::IsEmpty()) << "not on the disk when " << path << " is removed";
      changed_.erase(path);
    }
    if (call.name == "rename") rename(path, call.second);
  }

  /// The files and folders at or below `path`, and the folder that names it.
  void expect_kept(const fs::path& path) const {
    for (const fs::path& changed : changed_) {
      EXPECT_FALSE(is_below(changed, path)) << changed << " may be lost";
    }
    EXPECT_FALSE(changed_.contains(path.parent_path())) << "the name of " << path << " may be lost";
  }

 private:
  static bool is_below(const fs::path& path, const fs::path& folder) {
    return path == folder || path.string().starts_with(folder.string() + "/");
  }

  void rename(const fs::path& from, const fs::path& to) {
    for (const fs::path& changed : changed_) {
      EXPECT_FALSE(is_below(changed, from))
          << changed << " is not on the disk when " << from << " is renamed";
    }
    changed_.insert({from.parent_path(), to.parent_path()});
    renamed_.insert(to);
  }

  std::set<fs::path> changed_{};  // files with bytes, folders with names that the disk may not have
  std::set<fs::path> renamed_{};  // new names that it may not have
};

TEST_P(Faults, OfPowerLoseNothingThatIsDone) {
  prepare();
  Disk disk;
  for (const Call& call : whole_run_.calls) disk.take(call);
  disk.expect_kept(out());
  EXPECT_GT(std::ranges::count(whole_run_.calls, "rename", &Call::name), 0);
}

TEST_P(Faults, OfFilesLeaveTheOldOrTheNew) { check_all({"EIO", "ENOSPC", "EINTR", "short"}); }

TEST_P(Faults, OfMemoryLeaveTheOldOrTheNew) { check_all({"memory"}); }

INSTANTIATE_TEST_SUITE_P(Commands, Faults, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace headwise
