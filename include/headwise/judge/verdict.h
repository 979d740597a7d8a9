// What the evidence about every head means: the content of verdict.json.
//
// docs/formats.md describes the file; docs/judge.md says how each verdict is reached.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/observe/evidence.h"
#include "headwise/observe/importance.h"

namespace headwise {

class Model;

/// Where a role was seen.
enum class RoleSource {
  data,    // the texts and labels that were given
  probes,  // built-in synthetic sentences only
};
std::string_view to_string(RoleSource source);

/// Something that a head does, and what shows it.
struct Role {
  std::string role{};    // "previous", "window", "relation", … : see role_kinds() in judge.h
  std::string detail{};  // "det to_head", "offset -3"; empty: the role says it all
  Measure shown{};       // score, n, interval, and the baseline that it beats
  RoleSource source = RoleSource::data;
  bool operator==(const Role&) const = default;
};

/// The numbers that heads are ranked by; those that were not measured are left out.
struct Importance {
  std::optional<double> gradient{}, entropy{}, confidence{};
  std::optional<Measure> ablation_zero{}, ablation_mean{};
  bool operator==(const Importance&) const = default;
};

struct HeadVerdict {
  std::string head{};         // "L3.H1"
  std::vector<Role> roles{};  // the most special first; "noise" or "unclear" if there is no other
  Importance importance{};
  std::optional<Standing> standing{};         // none: its ablation was not measured
  std::vector<std::string> redundant_with{};  // redundant with this head, nearest first
  std::vector<std::string> backups{};  // heads that matter more once it is removed, by synergy
  bool operator==(const HeadVerdict&) const = default;

  bool has(std::string_view role) const;

  /// The role that stands for the head: the most special one seen on data, else the most special
  /// one seen on probes only. Null for a head without roles.
  const Role* main_role() const;
};

/// All heads of one role, and what ablating them together did, if that was measured.
struct Category {
  std::string role{};
  std::vector<std::string> heads{};
  std::optional<Measures> measured{};  // of the group of this name in the evidence
  bool operator==(const Category&) const = default;
};

/// Heads that can stand in for each other; the representative first.
using Cluster = std::vector<std::string>;

struct LayerVerdict {
  std::string layer{};                     // "L3"
  std::map<std::string, int64_t> roles{};  // how many of its heads have each
  std::optional<double> importance{};      // mean ablation_zero of its heads, else mean gradient
  std::optional<Measure> ablated{};        // ablation_zero of all its heads together
  double redundant = 0;                    // share of its heads that are redundant
  std::string advice{};                    // "thin", "freeze" or empty, as docs/judge.md says
  bool operator==(const LayerVerdict&) const = default;
};

struct Verdict {
  Evidence::ModelIdentity model{};
  std::string loss_task{};                     // empty: no loss was measured
  double loss = 0;                             // of the model with all its heads
  double tolerance = 0;                        // of standings: how much the loss may rise
  std::map<std::string, double> thresholds{};  // that roles were given by
  std::vector<HeadVerdict> heads{};
  std::vector<Cluster> clusters{};
  std::vector<Category> categories{};
  std::vector<LayerVerdict> layers{};
  /// Heads by gradient, ablation_zero, ablation_mean, entropy and confidence: those that should
  /// matter most first, which are those of low entropy.
  std::map<std::string, std::vector<std::string>> rankings{};
  /// Spearman correlation of the rankings: correlation["gradient"]["ablation_zero"].
  std::map<std::string, std::map<std::string, double>> correlation{};

  std::vector<std::string> measured{};  // roles that the evidence could show, if a head had them
  std::vector<std::string> warnings{};  // why the verdict may be wrong: too few tokens

  const HeadVerdict& head(std::string_view name) const;  // throws Error if there is none
  bool operator==(const Verdict&) const = default;
};

/// How many heads have each role, by where it was seen. Noise and unclear heads have no role.
struct RoleCounts {
  std::map<std::string, int64_t> data{};    // heads that have the role on data
  std::map<std::string, int64_t> probes{};  // heads that have it on probes only
  /// Heads by their main role: those with a role on data, and those with roles on probes only.
  std::map<std::string, int64_t> main_data{}, main_probes{};
};
RoleCounts count_roles(const Verdict& verdict);

struct RelationHead {
  std::string relation{};  // "nsubj to_head"
  std::string head{};
  Measure shown{};
};

/// Of each relation and direction that heads find on data, the head that is furthest above its
/// baseline, with the interval's lower end. The best found relation comes first.
std::vector<RelationHead> best_relation_heads(const Verdict& verdict);

/// The text of verdict.json, and back. Throws Error for what is no verdict; `where` names the text
/// in messages.
std::string to_json(const Verdict& verdict);
Verdict verdict_from_json(std::string_view text, const std::string& where);

/// The verdict of a file, or of the folder of a study. Throws Error for what cannot be read; of
/// another stage's file it says so.
Verdict read_verdict(const std::filesystem::path& file);

/// Throws Error unless the verdict is of a model with these weights: all of them are hashed.
/// `where` names the verdict in messages, `check` is called now and then and may throw to stop.
void check_fits(const Verdict& verdict, const Model& model, const std::string& where,
                const std::function<void()>& check = {});

}  // namespace headwise
