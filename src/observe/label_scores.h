// How well labels were told.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace headwise {

/// "accuracy"; "f1", of label 1 if there are two, else the mean of all labels that occur (macro);
/// "matthews", the correlation coefficient for any number of labels (Gorodkin 2004), 0 if all of
/// one side are equal.
std::map<std::string, double> label_scores(std::span<const int32_t> said,
                                           std::span<const int32_t> right, int64_t labels);

}  // namespace headwise
