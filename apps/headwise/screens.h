// What people see of each stage: tables, grids of heads, charts, sentences.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/observe/evidence.h"
#include "headwise/plan/plan.h"
#include "headwise/prune/prune_report.h"
#include "headwise/study/study.h"
#include "screen.h"

namespace headwise::program {

/// "+0.0352" of a measure that there is, else nothing.
std::string signed_value(const Measures& measures, const char* name);

/// What ablating heads adds to the loss, by their standing.
using Standings = std::map<Standing, std::vector<std::pair<double, std::string>>>;
/// A line for each standing: how many heads, and the first `most`, those that matter most.
std::string to_text(Standings standings, size_t most);

/// The layers, the heads that stand out, the best head for each relation.
std::string to_text(const Evidence& evidence);

/// A grid with a letter and a colour for the role of each head, what its letters mean, which heads
/// matter, redundant heads, categories.
std::string to_text(const Verdict& verdict, Color color, int64_t width);
/// The grid, and a few lines that say what its letters mean.
std::string role_grid(const Verdict& verdict, Color color, int64_t width);
/// All roles and all thresholds.
std::string role_table(Color color);

/// What goes in each layer, what is expected of that, the curves.
std::string to_text(const Plan& plan);

/// The model before and after.
std::string to_text(const PruneReport& report);

/// What the heads do, what can be removed and what that saves; `verbose`: every table.
std::string to_text(const Study& study, const std::string& out, bool verbose);
/// "ablation: 40 % done, 3 s left, 12 s in all"
std::string to_text(const StudyProgress& progress);

}  // namespace headwise::program
