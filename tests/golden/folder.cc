#include "golden/folder.h"

namespace headwise {

std::filesystem::path golden_folder() { return HEADWISE_GOLDEN; }

}  // namespace headwise
