// Options that several commands have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"

namespace headwise::program {

/// "lm, mlm or fidelity"
std::string any_of(const std::vector<std::string_view>& names);

// The texts say what is particular to a command, or what the default is.

/// --loss lm; `what` ends the description.
CLI::Option* add_loss(CLI::App& command, std::string& loss, std::string_view what);
/// --data FILE, several times.
CLI::Option* add_data(CLI::App& command, std::vector<std::string>& files, std::string_view what,
                      std::string_view otherwise = "");
CLI::Option* add_sample(CLI::App& command, int64_t& count, std::string_view what);
CLI::Option* add_sample(CLI::App& command, std::optional<int64_t>& count, std::string_view what);
CLI::Option* add_treebank(CLI::App& command, std::string& file);
CLI::Option* add_coreference(CLI::App& command, std::string& file);
CLI::Option* add_no_probes(CLI::App& command, bool& leaves_out);
CLI::Option* add_lexicon(CLI::App& command, std::string& file);
CLI::Option* add_truncate(CLI::App& command, bool& truncates);
CLI::Option* add_allow_nonfinite(CLI::App& command, bool& allows);
/// The folder or the id of a model, as MODEL or --model.
CLI::Option* add_model(CLI::App& command, const char* name, std::string& model);

/// --keep 0.6, --heads 40, --at-least 1: what stays of a model.
CLI::Option* add_keep(CLI::App& command, std::string& share, std::string_view what = "");
CLI::Option* add_heads_left(CLI::App& command, std::optional<int64_t>& heads);
CLI::Option* add_at_least(CLI::App& command, int64_t& heads);
CLI::Option* add_at_least(CLI::App& command, std::optional<int64_t>& heads);
CLI::Option* add_order(CLI::App& command, std::string& order);
CLI::Option* add_form(CLI::App& command, std::string& form);

/// Whole numbers from `least` on.
CLI::Validator whole_number(int64_t least = 0);

/// One of these names.
CLI::Validator is_one_of(const std::vector<std::string_view>& names);

}  // namespace headwise::program
