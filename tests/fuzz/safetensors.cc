// Any bytes are a checkpoint whose every value can be read, or are refused.
#include <string>
#include <vector>

#include "files.h"
#include "fuzz.h"
#include "headwise/io/tensor_file.h"

namespace headwise {
namespace {

void read_all(const TensorFiles& files) {
  using fuzz::must;
  for (const TensorInfo& tensor : files.tensors()) {
    must(files.find(tensor.name) == &tensor, "a tensor is not found by its name");
    const size_t size = static_cast<size_t>(tensor.size());
    const TensorBytes bytes = files.bytes(tensor);
    must(bytes.span().size() == size * byte_size(tensor.dtype), "a tensor of another size");
    unsigned sum = 0;
    for (const std::byte b : bytes.span()) sum += static_cast<unsigned>(b);
    if (is_float(tensor.dtype)) {
      std::vector<float> values(size);
      files.read(tensor, values);
    }
    const bool finite = fuzz::succeeds([&] { files.check_finite(tensor, bytes.span()); });
    must(finite || sum > 0, "zero is not finite");
  }
}

}  // namespace
}  // namespace headwise

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const headwise::fuzz::MemoryFile file(headwise::fuzz::text(data, size));
  headwise::fuzz::succeeds([&] { headwise::read_all(headwise::TensorFiles::open(file.path())); });
  return 0;
}
