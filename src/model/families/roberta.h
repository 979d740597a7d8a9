// What RoBERTa shares with encoders that follow it.
#pragma once

#include <string>
#include <vector>

#include "model/families/family.h"

namespace headwise {

/// Positions are counted from the row after that of padding.
void offset_positions(ConfigFields& fields, ModelConfig& config, int32_t pad);

TaskNames roberta_masked_lm(const ModelConfig& config, const std::string& prefix);
TaskNames roberta_classifier(const ModelConfig& config, const std::string& prefix);
std::vector<ModelClass> roberta_classes();

}  // namespace headwise
