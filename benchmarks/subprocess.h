// A child process spoken to through pipes, that can be put to sleep, and never outlives its parent.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace headwise::bench {

class Subprocess {
 public:
  /// Starts the program command[0]; its standard error is ours.
  explicit Subprocess(const std::vector<std::string>& command);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  /// These throw Error, saying how the child ended, if it did.
  void write_line(const std::string& line);
  std::string read_line();
  void read_bytes(char* bytes, size_t count);

  void stop();    // returns when the child stands still
  void resume();  // lets it run again

 private:
  [[noreturn]] void fail();
  void fill();

  std::string name_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;  // our ends: we write to in_ and read from out_
  std::string buffer_;      // read, but not asked for yet
};

}  // namespace headwise::bench
