// Runs a fuzz target over the files it is given: the fuzzer's seeds as a test, without a fuzzer.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int count, char** files) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s FILE...\n", files[0]);
    return 2;
  }
  for (int i = 1; i < count; ++i) {
    std::ifstream stream(files[i], std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "cannot read %s\n", files[i]);
      return 1;
    }
    std::printf("%s\n", files[i]);
    std::fflush(stdout);  // names the culprit, should this input end the program
    const std::string bytes(std::istreambuf_iterator<char>(stream), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
}
