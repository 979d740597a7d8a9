// The built page, as a string in the library.
#pragma once

#include <string_view>

namespace headwise {

/// web/dist/page.html
std::string_view page_template();

std::string_view program_version();

}  // namespace headwise
