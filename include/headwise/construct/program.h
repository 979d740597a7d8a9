// Programs of select and aggregate (RASP): what they compute at every position of a text, told
// plainly. construct.h compiles them into the weights of a model.
//
//   alphabet: a b c d
//   length: 10
//   count = selector_width(select(true))
//   opposite = select(indices, count - indices - 1, ==)
//   return aggregate(opposite, tokens)
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

struct ProgramOptions {
  std::optional<int64_t> length{};      // instead of the program's own
  std::vector<std::string> alphabet{};  // likewise; empty: the program's own
};

class ProgramGraph;

/// A program over texts of at most length() tokens of an alphabet. Copies share the graph.
class Program {
 public:
  /// Throws Error with the line of what is not understood; `where` names the text in messages.
  static Program parse(std::string_view source, const std::string& where,
                       const ProgramOptions& options = {});
  /// A program that comes with headwise, by its name, or a file with one.
  static Program load(const std::string& name_or_file, const ProgramOptions& options = {});

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  const std::vector<std::string>& alphabet() const;
  int64_t length() const;  // of the longest text, in tokens

  /// What the program gives at every token, by plain evaluation: the reference of the compiled
  /// model. Throws Error for a text that the program has no answer for.
  std::vector<std::string> run(std::span<const std::string> tokens) const;

  /// Only the compiler knows it.
  const ProgramGraph& graph() const { return *graph_; }

 private:
  Program() = default;
  std::string name_, source_;
  std::shared_ptr<const ProgramGraph> graph_;
};

/// A program that comes with headwise.
struct KnownProgram {
  std::string_view name{}, description{}, source{};
};
std::span<const KnownProgram> known_programs();

}  // namespace headwise
