// What the live page shows of one text: the maps of all heads, and what the model makes of it with
// and without gates.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/sentence_embedding.h"
#include "inputs.h"

namespace headwise::program {

struct LookRequest {
  std::string text{};
  std::map<std::string, double> gates{};  // by head, "L3.H1", or layer
};

class Looker {
 public:
  static constexpr int64_t kMostCharacters = 10'000;

  /// Throws Error if the model reads no text.
  explicit Looker(const Session& session);

  const std::string& task() const { return task_; }  // "fill", "next", "classify", …
  int64_t most_tokens() const { return most_tokens_; }

  /// The answer of /api/look, see docs/serve.md. Throws Error for gates and texts that cannot be.
  Json look(const LookRequest& request) const;

 private:
  HeadGates gates_of(const LookRequest& request) const;
  Json output(const Session& session, const Input& input) const;
  Json run(const Session& session, const Input& input, const std::string& task) const;
  Json next(const Session& session, const Input& input) const;

  Session session_;
  SentencePooling pooling_;
  std::vector<HeadIndex> heads_;
  std::string task_;
  int64_t most_tokens_ = 128;
};

}  // namespace headwise::program
