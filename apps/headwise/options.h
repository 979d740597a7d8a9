// Declares options: each of those that several commands have, once.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "command.h"

namespace headwise::program {

/// Checks that an option is a number, neither infinite nor below `least`, and says so in words.
CLI::Validator finite(std::optional<double> least = std::nullopt);
/// From `least` to `most`.
CLI::Validator between(double least, double most);
/// Whole numbers.
CLI::Validator whole_number(int64_t least = 0, int64_t most = int64_t{1} << 40);
/// One of these names.
CLI::Validator is_one_of(const std::vector<std::string_view>& names);

/// "0.6" or "60%" of something; none for what is no share. Checks that an option is one, and not
/// above `most`.
std::optional<double> parse_share(std::string_view text);
CLI::Validator is_share(double most = 1);

/// "lm, mlm or fidelity"
std::string any_of(const std::vector<std::string_view>& names);

/// The options of a command, or a group of them under a title of their own in --help.
class Options {
 public:
  explicit Options(CLI::App& command, std::string group = "")
      : command_(command), group_(std::move(group)) {}

  /// A value, which --help calls `type`.
  template <class T>
  CLI::Option* add(const char* names, T& value, const char* type, const std::string& description,
                   CLI::Validator check = {}) {
    CLI::Option* const option = command_.add_option(names, value, description)->type_name(type);
    return grouped(option->check(std::move(check)));
  }
  CLI::Option* flag(const char* names, bool& value, const std::string& description) {
    return grouped(command_.add_flag(names, value, description));
  }
  /// One value each time that the option is given.
  CLI::Option* list(const char* names, std::vector<std::string>& values, const char* type,
                    const std::string& description);
  /// Values with commas between them.
  CLI::Option* commas(const char* names, std::vector<std::string>& values,
                      const std::string& description, CLI::Validator check = {});
  /// An argument without a name before it.
  CLI::Option* argument(const char* name, std::string& value, const std::string& description) {
    return add(name, value, "", description);
  }

  // Below, the texts say what is particular to a command, or what the default is.

  /// The folder or the id of a model, as MODEL or --model.
  CLI::Option* model(const char* name, std::string& model);
  CLI::Option* loss(std::string& loss, std::string_view what);
  CLI::Option* data(std::vector<std::string>& files, std::string_view what,
                    std::string_view otherwise = "");
  template <class Count>  // int64_t or an optional one
  CLI::Option* sample(Count& count, const std::string& what) {
    return add("--sample", count, "N", "At most so many " + what, whole_number(1));
  }
  CLI::Option* treebank(std::string& file);
  CLI::Option* coreference(std::string& file);
  CLI::Option* no_probes(bool& leaves_out);
  CLI::Option* lexicon(std::string& file);
  CLI::Option* truncate(bool& truncates);
  CLI::Option* allow_nonfinite(bool& allows);
  CLI::Option* verdict(std::string& file, const std::string& what);
  CLI::Option* resume(bool& resumes, const std::string& what);
  CLI::Option* tokens(int64_t& tokens, const std::string& what);
  CLI::Option* color(std::string& when);

  // What stays of a model: --keep 0.6, --heads 40, --at-least 1.
  CLI::Option* keep(std::string& share, std::string_view what = "");
  CLI::Option* heads_left(std::optional<int64_t>& heads);
  template <class Count>
  CLI::Option* at_least(Count& heads) {
    return add("--at-least", heads, "K", "So many heads stay in every layer; default: 1",
               whole_number());
  }
  CLI::Option* order(std::string& order);
  CLI::Option* form(std::string& form);

 private:
  CLI::Option* grouped(CLI::Option* option) {
    return group_.empty() ? option : option->group(group_);
  }

  CLI::App& command_;
  std::string group_;
};

}  // namespace headwise::program
