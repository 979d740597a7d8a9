// What options may be, with the names that the library knows.
#include "options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "headwise/observe/evaluation.h"
#include "headwise/plan/make_plan.h"
#include "headwise/prune/prune.h"

namespace headwise::program {
namespace {

/// The number that all of a text is.
std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || after != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

CLI::Validator finite(std::optional<double> least) {
  const auto check = [least](const std::string& text) -> std::string {
    const std::optional<double> value = parse_number(text);
    if (!value) return fmt::format("{} is no number", text);
    return least && *value < *least ? fmt::format("{} is below {}", text, *least) : "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator between(double least, double most) {
  return CLI::Range(least, most).description("");
}

CLI::Validator whole_number(int64_t least, int64_t most) {
  return CLI::Range(least, most).description("");
}

CLI::Validator is_one_of(const std::vector<std::string_view>& names) {
  return CLI::IsMember(std::vector<std::string>(names.begin(), names.end())).description("");
}

std::optional<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const std::optional<double> value = parse_number(text);
  if (!value || *value < 0) return std::nullopt;
  return percent ? *value / 100 : *value;
}

CLI::Validator is_share(double most) {
  const auto check = [most](const std::string& text) -> std::string {
    const std::optional<double> share = parse_share(text);
    if (!share) return fmt::format("{} is no share, such as 0.6 or 60%", text);
    if (*share <= most) return "";
    if (*share <= 100 * most && !text.ends_with('%')) {
      return fmt::format("{0} is more than all; did you mean {0}% or {1}?", text, *share / 100);
    }
    return fmt::format("{} is more than all", text);
  };
  return CLI::Validator(check, "");
}

std::string any_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

CLI::Option* Options::list(const char* names, std::vector<std::string>& values, const char* type,
                           const std::string& description) {
  return add(names, values, type, description)->allow_extra_args(false);
}

CLI::Option* Options::commas(const char* names, std::vector<std::string>& values,
                             const std::string& description, CLI::Validator check) {
  return add(names, values, "LIST", description, std::move(check))->delimiter(',');
}

CLI::Option* Options::model(const char* name, std::string& model) {
  const bool positional = name[0] != '-';
  return add(name, model, positional ? "" : "MODEL",
             "A Hugging Face folder, or an id in the local cache")
      ->required(positional);
}

CLI::Option* Options::loss(std::string& loss, std::string_view what) {
  return add("--loss", loss, "TASK", fmt::format("{}{}", any_of(loss_task_names()), what),
             is_one_of(loss_task_names()));
}

CLI::Option* Options::data(std::vector<std::string>& files, std::string_view what,
                           std::string_view otherwise) {
  return list("--data", files, "FILE",
              fmt::format("{}, as in docs/data.md; translate takes two{}", what, otherwise));
}

CLI::Option* Options::treebank(std::string& file) {
  return add("--treebank", file, "FILE", "Universal Dependencies: a CoNLL-U file");
}

CLI::Option* Options::coreference(std::string& file) {
  return add("--coref", file, "FILE",
             "Pronouns and names: GAP's tab-separated file, or CoNLL-U with Entity=");
}

CLI::Option* Options::no_probes(bool& leaves_out) {
  return flag("--no-probes", leaves_out, "Leave the built-in probes out");
}

CLI::Option* Options::lexicon(std::string& file) {
  return add("--probe-lexicon", file, "FILE",
             "Words of another language for the probes: a JSON file, see docs/probes.md");
}

CLI::Option* Options::truncate(bool& truncates) {
  return flag("--truncate", truncates, "Cut texts that are too long for the model");
}

CLI::Option* Options::allow_nonfinite(bool& allows) {
  return flag("--allow-nonfinite", allows, "Load a model with NaN or infinity among its weights");
}

CLI::Option* Options::verdict(std::string& file, const std::string& what) {
  return add("--verdict", file, "FILE", what);
}

CLI::Option* Options::resume(bool& resumes, const std::string& what) {
  return flag("--resume", resumes, what);
}

CLI::Option* Options::tokens(int64_t& tokens, const std::string& what) {
  return add("--tokens", tokens, "N", what + "; default: 128", whole_number(1, 1 << 24));
}

CLI::Option* Options::color(std::string& when) {
  return add("--color", when, "C", "auto, always or never; default: auto",
             is_one_of({"auto", "always", "never"}));
}

CLI::Option* Options::keep(std::string& share, std::string_view what) {
  return add("--keep", share, "SHARE",
             fmt::format("At most this share of the heads stays: 0.6 or 60%{}", what), is_share());
}

CLI::Option* Options::heads_left(std::optional<int64_t>& heads) {
  return add("--heads", heads, "N", "At most so many heads stay", whole_number());
}

CLI::Option* Options::order(std::string& order) {
  return add("--order", order, "ORDER",
             fmt::format("Which heads go first: {}, which measures again after each step; "
                         "default: ablation where it was measured, else gradient",
                         any_of(head_order_names())),
             is_one_of(head_order_names()));
}

CLI::Option* Options::form(std::string& form) {
  return add(
      "--form", form, "FORM",
      fmt::format("{}; default: {}", any_of(prune_form_names()), to_string(PruneForm::compact)),
      is_one_of(prune_form_names()));
}

}  // namespace headwise::program
