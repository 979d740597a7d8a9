// Tokenizers: ours against the tokenizers package, one thread, on lines of text and on one word of
// a megabyte.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "golden/text_golden.h"
#include "harness.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/text/tokenizer.h"
#include "peer.h"
#include "report.h"

namespace headwise::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWordBytes = 1 << 20;

/// Texts, and the file the peer reads them from: a JSON array.
struct Corpus {
  Corpus(std::string corpus_name, std::vector<std::string> corpus_texts)
      : name(std::move(corpus_name)),
        texts(std::move(corpus_texts)),
        file(fs::path(HEADWISE_BENCH_DATA) / (name + ".json")) {
    for (const std::string& text : texts) bytes += text.size();
    fs::create_directories(file.parent_path());
    std::ofstream(file) << nlohmann::json(texts).dump();
  }

  std::string name;
  std::vector<std::string> texts;
  fs::path file;
  size_t bytes = 0;
};

/// The lines of a file that are UTF-8, as many as make up `most_bytes`.
std::vector<std::string> lines_of(const std::string& path, size_t most_bytes) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw Error({.what = "bench tokenizer: the text cannot be read", .where = path});
  }
  std::vector<std::string> lines;
  size_t bytes = 0;
  for (std::string line; bytes < most_bytes && std::getline(stream, line);) {
    bytes += line.size();
    lines.push_back(line);
  }
  return lines;
}

/// The letters of the texts, over and over: no place to split.
std::string one_word(const std::vector<std::string>& texts) {
  std::string letters, word;
  for (const std::string& text : texts) {
    for (const char c : text) {
      if ('a' <= c && c <= 'z') letters += c;
    }
  }
  while (word.size() < kWordBytes) word += letters;
  word.resize(kWordBytes);
  return word;
}

class TokenizerBenchmark {
 public:
  TokenizerBenchmark(const Options& options, Report& report)
      : options_(options),
        report_(report),
        harness_(options.quick ? Harness::Settings{.samples = 3, .race_seconds = 1}
                               : Harness::Settings{.race_seconds = 8}) {
    if (!options.peer.empty()) peer_ = std::make_unique<Peer>(options, "tokenizer");
  }

  void run();

 private:
  fs::path trained(const std::string& kind, const Corpus& corpus);
  void against_peer(const std::string& model, const fs::path& folder, const Corpus& corpus);
  void check(const std::string& name, const std::vector<Encoding>& ours);

  const Options& options_;
  Report& report_;
  Harness harness_;
  std::unique_ptr<Peer> peer_;
};

/// Ids of all texts, then offsets of all texts; both are exact in float32 below 2^24.
void TokenizerBenchmark::check(const std::string& name, const std::vector<Encoding>& ours) {
  std::vector<float> numbers;
  for (const Encoding& e : ours) numbers.insert(numbers.end(), e.ids.begin(), e.ids.end());
  for (const Encoding& e : ours) {
    for (const TokenSpan& span : e.code_points) {
      numbers.push_back(static_cast<float>(span.begin));
      numbers.push_back(static_cast<float>(span.end));
    }
  }
  const std::vector<float> theirs = peer_->outputs();
  if (numbers == theirs) return;
  const auto [at, other] =
      std::mismatch(numbers.begin(), numbers.end(), theirs.begin(), theirs.end());
  throw Error(
      {.what = "bench tokenizer: our ids or offsets are not the peer's",
       .where = name,
       .got = fmt::format("{} numbers, other from the {}th", numbers.size(), at - numbers.begin()),
       .expected = fmt::format("{} numbers", theirs.size()),
       .hint = "tests/parity/tokenizer.py shows where"});
}

void TokenizerBenchmark::against_peer(const std::string& model, const fs::path& folder,
                                      const Corpus& corpus) {
  const std::string name = fmt::format("encode model={} text={}", model, corpus.name);
  if (!options_.select(name)) return;
  const Tokenizer tokenizer = Tokenizer::load(folder);
  std::vector<Encoding> encodings(corpus.texts.size());
  const auto call = [&] {
    for (size_t i = 0; i < encodings.size(); ++i) encodings[i] = tokenizer.encode(corpus.texts[i]);
  };
  call();
  std::vector<Timer> sides{timer_of(call)};
  if (peer_) {
    peer_->prepare({{"folder", fs::absolute(folder).string()}, {"texts", corpus.file.string()}});
    try {
      check(name, encodings);
    } catch (const Error& error) {
      return report_.refused(error);
    }
    sides.push_back([this](int64_t reps) { return peer_->time(reps); });
  }
  const std::vector<Timing> timings = harness_.race(1, sides);
  const double megabytes = static_cast<double>(corpus.bytes) * 1e-6;
  Result result{.name = name,
                .unit = "MB/s",
                .ours = megabytes / timings[0].seconds,
                .goal = 1,
                .disturbed = timings[0].disturbed};
  if (peer_) {
    result.peer = megabytes / timings[1].seconds;
    result.ratio = result.ours / *result.peer;
    result.disturbed |= timings[1].disturbed;
  }
  report_.add(result);
}

/// The folder of a tokenizer with some thousand tokens; the peer trains it the first time.
fs::path TokenizerBenchmark::trained(const std::string& kind, const Corpus& corpus) {
  const fs::path folder = fs::path(HEADWISE_BENCH_DATA) / kind / corpus.name;
  if (!fs::exists(folder / "tokenizer.json")) {
    peer_->prepare({{"train", kind}, {"folder", folder.string()}, {"texts", corpus.file.string()}});
  }
  return folder;
}

void TokenizerBenchmark::run() {
  set_threads(1);
  std::vector<Corpus> corpora;
  if (options_.texts.empty()) {
    corpora.emplace_back("golden", golden::load_texts());
  } else {
    corpora.emplace_back(fs::path(options_.texts[0]).stem().string(),
                         lines_of(options_.texts[0], options_.quick ? 1 << 17 : 1 << 20));
  }
  corpora.emplace_back("one-word", std::vector{one_word(corpora[0].texts)});

  std::vector<std::pair<std::string, fs::path>> models;
  for (const std::string& folder : options_.models) {
    models.emplace_back(fs::path(folder).filename().string(), folder);
  }
  if (models.empty()) {
    for (const char* name : {"bert-uncased", "gpt2", "llama3", "llama2", "t5"}) {
      models.emplace_back(name, golden::text_folder() / "tokenizers" / name);
    }
  }
  if (peer_) {
    for (const char* kind : {"byte-level-bpe", "unigram"}) {
      models.emplace_back(kind, trained(kind, corpora[0]));
    }
  }
  for (const auto& [name, folder] : models) {
    for (const Corpus& corpus : corpora) against_peer(name, folder, corpus);
  }
}

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  using namespace headwise::bench;
  return run_benchmark(
      argc, argv, "bench tokenizer: ours and the tokenizers package's, interleaved",
      [](const Options& options, Report& report) { TokenizerBenchmark(options, report).run(); });
}
