// Counts of pairs, kept up to date while pairs are joined: a step costs what it changes.
#include "text/bpe_merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <queue>
#include <unordered_map>
#include <utility>

#include "headwise/core/error.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

constexpr size_t kMostBytes = size_t{1} << 31;  // below what Vocabulary can number

struct Candidate {
  int64_t count = 0;
  BpeMerge pair{};

  bool operator<(const Candidate& other) const {  // a heap gives the largest first
    if (count != other.count) return count < other.count;
    if (pair.left != other.pair.left) return pair.left > other.pair.left;
    return pair.right > other.pair.right;
  }
};

struct PairSeen {
  int64_t count = 0;
  std::vector<uint32_t> words{};  // that may have it
};

class Learner {
 public:
  Learner(const CountedWords& words, const std::vector<std::string>& special)
      : counts_(words.counts) {
    for (const std::string& token : special) add_token(token);
    add_bytes();
    begins_.reserve(words.words.size() + 1);
    for (size_t i = 0; i < words.words.size(); ++i) {
      begins_.push_back(symbols_.size());
      for (const char byte : words.words.token_at(i)) {
        symbols_.push_back(byte_ids_[static_cast<uint8_t>(byte)]);
      }
      ends_.push_back(symbols_.size());
    }
    for (uint32_t word = 0; word < ends_.size(); ++word) {
      for (size_t i = begins_[word]; i + 1 < ends_[word]; ++i) {
        change({symbols_[i], symbols_[i + 1]}, word, 1);
      }
      queue_changed();
    }
  }

  LearnedBpe learn(size_t vocabulary, int64_t min_frequency) {
    while (tokens_.size() < vocabulary && !candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const PairSeen& seen = pairs_[key(best.pair)];
      if (seen.count != best.count) {
        if (seen.count > 0) candidates_.push({seen.count, best.pair});
        continue;
      }
      if (best.count < std::max<int64_t>(min_frequency, 1)) break;
      merges_.push_back(best.pair);
      join(best.pair, add_token(tokens_[static_cast<size_t>(best.pair.left)] +
                                tokens_[static_cast<size_t>(best.pair.right)]));
    }
    return {.tokens = std::move(tokens_), .merges = std::move(merges_)};
  }

 private:
  static uint64_t key(BpeMerge pair) {
    return uint64_t{static_cast<uint32_t>(pair.left)} << 32 | static_cast<uint32_t>(pair.right);
  }

  /// Its id; the one it has already if it is there.
  int32_t add_token(const std::string& token) {
    const auto id = static_cast<int32_t>(tokens_.size());
    if (!ids_.add(token, id)) return *ids_.find(token);
    tokens_.push_back(token);
    return id;
  }

  void add_bytes() {
    std::vector<std::pair<char32_t, size_t>> alphabet;  // by code point, as the ids shall be
    for (size_t byte = 0; byte < 256; ++byte) alphabet.emplace_back(byte_alphabet()[byte], byte);
    std::sort(alphabet.begin(), alphabet.end());
    for (const auto& [c, byte] : alphabet) {
      std::string token;
      append_char(token, c);
      byte_ids_[byte] = add_token(token);
    }
  }

  void change(BpeMerge pair, uint32_t word, int64_t times) {
    PairSeen& seen = pairs_[key(pair)];
    seen.count += times * counts_[word];
    if (times < 0) return;
    if (seen.words.empty() || seen.words.back() != word) seen.words.push_back(word);
    changed_.push_back(pair);
  }

  void queue_changed() {
    for (const BpeMerge& pair : changed_) {
      const int64_t count = pairs_[key(pair)].count;
      if (count > 0) candidates_.push({count, pair});
    }
    changed_.clear();
  }

  /// All of a token's occurrences come from one merge, since what is joined inside it does not
  /// depend on its neighbours: a pair that was joined never comes back.
  void join(BpeMerge pair, int32_t token) {
    std::vector<uint32_t> words = std::exchange(pairs_[key(pair)].words, {});
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    for (const uint32_t word : words) join_in(word, pair, token);
    queue_changed();
  }

  void join_in(uint32_t word, BpeMerge pair, int32_t token) {
    int32_t* const begin = symbols_.data() + begins_[word];
    int32_t* const end = symbols_.data() + ends_[word];
    int32_t* out = begin;
    for (const int32_t* in = begin; in != end;) {
      if (in + 1 == end || in[0] != pair.left || in[1] != pair.right) {
        *out++ = *in++;
        continue;
      }
      change(pair, word, -1);
      if (out != begin) {
        change({out[-1], pair.left}, word, -1);
        change({out[-1], token}, word, 1);
      }
      if (in + 2 != end) {
        change({pair.right, in[2]}, word, -1);
        change({token, in[2]}, word, 1);
      }
      *out++ = token;
      in += 2;
    }
    ends_[word] = static_cast<size_t>(out - symbols_.data());
  }

  const std::vector<int64_t>& counts_;
  Vocabulary ids_;
  std::vector<std::string> tokens_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<int32_t> symbols_;       // of all words
  std::vector<size_t> begins_, ends_;  // of each word in symbols_
  std::unordered_map<uint64_t, PairSeen> pairs_;
  std::vector<BpeMerge> changed_;              // pairs there are more of
  std::priority_queue<Candidate> candidates_;  // may be out of date: see learn()
  Merges merges_;
};

}  // namespace

void CountedWords::add(std::string_view word) {
  if (const auto place = words.find(word)) {
    ++counts[static_cast<size_t>(*place)];
    return;
  }
  bytes += word.size();
  if (bytes > kMostBytes) {
    throw Error({.what = "BPE: too many different words",
                 .got = fmt::format("more than {} bytes of them", kMostBytes),
                 .hint = "train on a part of the text"});
  }
  words.add(word, static_cast<int32_t>(counts.size()));
  counts.push_back(1);
}

LearnedBpe learn_bpe(const CountedWords& words, const std::vector<std::string>& special,
                     int64_t vocabulary, int64_t min_frequency) {
  return Learner(words, special).learn(static_cast<size_t>(vocabulary), min_frequency);
}

}  // namespace headwise::text
