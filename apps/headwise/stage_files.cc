// Reads evidence.json and verdict.json.
#include "stage_files.h"

#include <cstdint>

#include "io/file.h"

namespace headwise::program {
namespace {

constexpr int64_t kMostEvidence = int64_t{1} << 30, kMostVerdict = int64_t{1} << 28;  // bytes

}  // namespace

Evidence read_evidence(const std::string& file) {
  return evidence_from_json(read_file(file, kMostEvidence), file);
}

Verdict read_verdict(const std::string& file) {
  return verdict_from_json(read_file(file, kMostVerdict), file);
}

}  // namespace headwise::program
