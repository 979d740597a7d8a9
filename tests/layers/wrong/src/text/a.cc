// Wrong: text is below model.
#include "headwise/io/b.h"
#include "model/b.h"

// Wrong: a trait of a family.
bool is_bert(const Config& config) { return config.model_type == "bert"; }
