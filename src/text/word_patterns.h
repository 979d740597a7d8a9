// The expressions that split text into words for byte-level BPE.
#pragma once

#include "text/patterns.h"

namespace headwise::text {

/// GPT-2 and RoBERTa.
class Gpt2Words : public Pattern {
 public:
  void find(std::string_view text, std::vector<Match>& matches) const override;
};

/// cl100k, Llama 3, Qwen: numbers of at most `digits`; marks are letters, or not.
class Cl100kWords : public Pattern {
 public:
  Cl100kWords(int digits, bool marks) : digits_(digits), marks_(marks) {}
  void find(std::string_view text, std::vector<Match>& matches) const override;

 private:
  int digits_;
  bool marks_;
};

/// o200k: words end where upper case follows lower case, and keep an English contraction.
class O200kWords : public Pattern {
 public:
  O200kWords(int digits, bool contractions) : digits_(digits), contractions_(contractions) {}
  void find(std::string_view text, std::vector<Match>& matches) const override;

 private:
  int digits_;
  bool contractions_;
};

}  // namespace headwise::text
