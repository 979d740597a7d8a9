// Draws the first weights of a model.
#include "train/initialise.h"

#include <string_view>

#include "headwise/core/random.h"

namespace headwise {
namespace {

uint64_t stream_of(std::string_view name) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

void initialise(const StoredTensor& tensor, const Init& init, uint64_t seed) {
  Random random(seed, stream_of(tensor.name));
  const auto next = [&]() -> float {
    switch (init.kind) {
      case Init::Kind::zeros:
        return 0;
      case Init::Kind::ones:
        return 1;
      case Init::Kind::normal:
        return init.deviation * random.normal();
    }
    return 0;
  };
  int64_t stored_row = 0;
  for (const TensorPart& part : tensor.parts) {
    for (int64_t row = 0; row < part.values.extent(0); ++row, ++stored_row) {
      for (int64_t column = 0; column < part.values.extent(1); ++column) {
        const float value = next();
        part.values(row, column) = stored_row == init.zero_row ? 0 : value;
      }
    }
  }
}

}  // namespace headwise
