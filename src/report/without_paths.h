// Texts without the folders of this machine.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace headwise {

/// Every path in a text, reduced to the name of its file: "--treebank /data/ud/dev.conllu" becomes
/// "--treebank dev.conllu". A path is a word that starts with /, ./, ../ or ~/, or that has two
/// slashes; "org/model" stays.
std::string without_paths(std::string_view text);

/// The same of every string in a value.
void remove_paths(nlohmann::json& value);

}  // namespace headwise
