// The orders in which heads go, as far as a verdict says them.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/plan/make_plan.h"
#include "plan/head_layout.h"

namespace headwise {

/// [heads of the layout], the lowest goes first, NaN never: heads without the number. Not of
/// greedy. Throws Error if no head has it.
std::vector<double> order_values(HeadOrder order, const Verdict& verdict, const HeadLayout& layout,
                                 uint64_t seed);

/// Moves undecided heads behind all but the essential ones, and these to the end.
void put_undecided_last(const Verdict& verdict, const HeadLayout& layout,
                        std::vector<double>& values);

}  // namespace headwise
