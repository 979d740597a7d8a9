// A library that is loaded before all others (LD_PRELOAD) and lets the program's calls for files
// and memory fail. The program itself knows nothing of it.
//
// HEADWISE_FAULT is "KIND AT": the call number AT of those that can fail so, from 1. Calls are
// counted from the begin of main() on, and only those for files below the folder
// HEADWISE_FAULT_BELOW. Kinds:
//   EIO, EINTR  that call fails
//   ENOSPC      that call fails, and all later ones: the disk is full
//   short       that call reads or writes half of what it could
//   memory      that allocation fails
//   none        nothing fails; AT is 0
// Each call that counts is a line of the file HEADWISE_FAULT_LOG: its name, its path and, of a
// rename, the new path, with tabs between. "!" stands before those that failed. Of memory the last
// line is the number of allocations.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

enum class Kind { none, eio, enospc, eintr, shortened, memory };

/// What a call does, and so how it can fail.
enum Action {
  kOpen,
  kCreate,
  kRead,
  kWrite,
  kSync,
  kName,
  kRemove,
  kList,
  kClose,
  kMap,
  kOpenFolder
};

struct State {
  Kind kind = Kind::none;
  int64_t at = 0;
  char below[PATH_MAX] = {};
  int log = -1;
  std::atomic<int64_t> count = 0;
  std::atomic<bool> running = false;
};
State state;

template <class F>
F real(const char* name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}
/// The function of that name behind this library.
#define REAL(name)                                      \
  (*[] {                                                \
    static const auto f = real<decltype(&name)>(#name); \
    return f;                                           \
  }())

class KeptErrno {
 public:
  ~KeptErrno() { errno = kept_; }

 private:
  int kept_ = errno;
};

void log_line(bool failed, const char* name, const char* path, const char* second) {
  if (state.log < 0) return;
  char line[2 * PATH_MAX + 64];
  const int size = std::snprintf(line, sizeof(line), "%s%s\t%s%s%s\n", failed ? "!" : "", name,
                                 path, *second != '\0' ? "\t" : "", second);
  (void)::syscall(SYS_write, state.log, line, static_cast<size_t>(size));
}

bool can_fail(Action action) {
  switch (state.kind) {
    case Kind::none:
    case Kind::eio:
      return true;
    case Kind::enospc:
      return action == kCreate || action == kWrite || action == kSync || action == kName;
    case Kind::eintr:
      return action <= kSync || action == kClose;
    case Kind::shortened:
      return action == kRead || action == kWrite;
    case Kind::memory:
      return false;
  }
  return false;
}

/// Whether the call with that number fails.
bool is_time() {
  const int64_t now = ++state.count;
  return state.at > 0 && (state.kind == Kind::enospc ? now >= state.at : now == state.at);
}

/// Whether this call fails. Sets errno.
bool fails(Action action, const char* name, const char* path, const char* second = "") {
  if (!state.running || !can_fail(action)) return false;
  const size_t length = std::strlen(state.below);
  if (std::strncmp(path, state.below, length) != 0 || (path[length] != '/' && path[length] != '\0'))
    return false;
  const bool failed = is_time();
  {
    const KeptErrno kept;
    log_line(failed, name, path, second);
  }
  if (!failed) return false;
  switch (state.kind) {
    case Kind::enospc:
      errno = ENOSPC;
      break;
    case Kind::eintr:
      errno = EINTR;
      break;
    default:
      errno = EIO;
  }
  return true;
}

struct Path {
  char text[PATH_MAX] = {};
  explicit Path(int file) {
    const KeptErrno kept;
    char link[64];
    std::snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    const ssize_t size = ::readlink(link, text, sizeof(text) - 1);
    text[size < 0 ? 0 : size] = '\0';
  }
  Path(int folder, const char* name) : Path(folder) {
    if (folder == AT_FDCWD) (void)::syscall(SYS_getcwd, text, sizeof(text));
    if (*name == '/') *text = '\0';
    const size_t size = std::strlen(text);
    std::snprintf(text + size, sizeof(text) - size, "%s%s", *name == '/' ? "" : "/", name);
  }
};

/// Of a transfer of `size` bytes, those that it may do; -1 if it fails.
ssize_t allowed(Action action, const char* name, int file, size_t size) {
  if (state.kind == Kind::shortened && size < 2) return static_cast<ssize_t>(size);
  if (!fails(action, name, Path(file).text)) return static_cast<ssize_t>(size);
  return state.kind == Kind::shortened ? static_cast<ssize_t>(size / 2) : -1;
}

/// One part of a vector of buffers, if that is all that may be done; else all of them.
ssize_t allowed_parts(Action action, const char* name, int file, const iovec* parts, int count,
                      iovec& one) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  const ssize_t most = allowed(action, name, file, size);
  if (most < 0 || static_cast<size_t>(most) == size) return most < 0 ? -1 : count;
  int first = 0;
  while (first + 1 < count && parts[first].iov_len == 0) ++first;
  one = {parts[first].iov_base,
         parts[first].iov_len < 2 ? parts[first].iov_len : parts[first].iov_len / 2};
  return 0;
}

bool open_fails(Action action, const char* path) {
  return fails(action, action == kCreate ? "create" : "open", path);
}

/// Nothing interrupts the opening of a folder: file systems do not wait there.
Action action_of(int flags) {
  if ((flags & O_CREAT) != 0) return kCreate;
  return (flags & O_DIRECTORY) != 0 ? kOpenFolder : kOpen;
}

bool memory_fails() { return state.kind == Kind::memory && state.running && is_time(); }

int (*program_main)(int, char**, char**) = nullptr;

int start(int argc, char** argv, char** environment) {
  state.running = true;
  const int code = program_main(argc, argv, environment);
  state.running = false;
  if (state.kind == Kind::memory) {
    char text[32];
    std::snprintf(text, sizeof(text), "%ld", static_cast<long>(state.count));
    log_line(false, "allocations", text, "");
  }
  return code;
}

__attribute__((constructor)) void read_environment() {
  const char* const fault = std::getenv("HEADWISE_FAULT");
  const char* const below = std::getenv("HEADWISE_FAULT_BELOW");
  const char* const log = std::getenv("HEADWISE_FAULT_LOG");
  if (fault == nullptr || below == nullptr) return;
  char kind[16] = {};
  long at = 0;
  if (std::sscanf(fault, "%15s %ld", kind, &at) != 2) return;
  const struct {
    const char* name;
    Kind kind;
  } kinds[] = {{"EIO", Kind::eio},
               {"ENOSPC", Kind::enospc},
               {"EINTR", Kind::eintr},
               {"short", Kind::shortened},
               {"memory", Kind::memory}};
  for (const auto& each : kinds) {
    if (std::strcmp(each.name, kind) == 0) state.kind = each.kind;
  }
  state.at = at;
  std::snprintf(state.below, sizeof(state.below), "%s", below);
  if (log != nullptr) {
    state.log = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  }
}

}  // namespace

extern "C" {

#define OPEN(name)                                                          \
  int name(const char* path, int flags, ...) {                              \
    va_list rest;                                                           \
    va_start(rest, flags);                                                  \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;  \
    va_end(rest);                                                           \
    if (open_fails(action_of(flags), Path(AT_FDCWD, path).text)) return -1; \
    return REAL(name)(path, flags, mode);                                   \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                       \
  int name(int folder, const char* path, int flags, ...) {                 \
    va_list rest;                                                          \
    va_start(rest, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                          \
    if (open_fails(action_of(flags), Path(folder, path).text)) return -1;  \
    return REAL(name)(folder, path, flags, mode);                          \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                            \
  FILE* name(const char* path, const char* mode) {                                             \
    if (open_fails(*mode == 'r' ? kOpen : kCreate, Path(AT_FDCWD, path).text)) return nullptr; \
    return REAL(name)(path, mode);                                                             \
  }
FOPEN(fopen)
FOPEN(fopen64)

int close(int file) {
  const bool failed = fails(kClose, "close", Path(file).text);
  const int reason = errno;
  const int result = REAL(close)(file);  // the descriptor is gone, whatever is said
  if (failed) errno = reason;
  return failed ? -1 : result;
}

ssize_t read(int file, void* out, size_t size) {
  const ssize_t most = allowed(kRead, "read", file, size);
  return most < 0 ? -1 : REAL(read)(file, out, static_cast<size_t>(most));
}
ssize_t readv(int file, const iovec* parts, int count) {
  iovec one;
  const ssize_t all = allowed_parts(kRead, "read", file, parts, count, one);
  return all < 0 ? -1 : all == 0 ? REAL(readv)(file, &one, 1) : REAL(readv)(file, parts, count);
}
ssize_t write(int file, const void* bytes, size_t size) {
  const ssize_t most = allowed(kWrite, "write", file, size);
  return most < 0 ? -1 : REAL(write)(file, bytes, static_cast<size_t>(most));
}
ssize_t writev(int file, const iovec* parts, int count) {
  iovec one;
  const ssize_t all = allowed_parts(kWrite, "write", file, parts, count, one);
  return all < 0 ? -1 : all == 0 ? REAL(writev)(file, &one, 1) : REAL(writev)(file, parts, count);
}

#define PREAD(name)                                                              \
  ssize_t name(int file, void* out, size_t size, off64_t at) {                   \
    const ssize_t most = allowed(kRead, "read", file, size);                     \
    return most < 0 ? -1 : REAL(name)(file, out, static_cast<size_t>(most), at); \
  }
PREAD(pread)
PREAD(pread64)

#define PWRITE(name)                                                               \
  ssize_t name(int file, const void* bytes, size_t size, off64_t at) {             \
    const ssize_t most = allowed(kWrite, "write", file, size);                     \
    return most < 0 ? -1 : REAL(name)(file, bytes, static_cast<size_t>(most), at); \
  }
PWRITE(pwrite)
PWRITE(pwrite64)

#define SENDFILE(name)                                                          \
  ssize_t name(int to, int from, off64_t* at, size_t size) {                    \
    const ssize_t most = allowed(kWrite, "write", to, size);                    \
    return most < 0 ? -1 : REAL(name)(to, from, at, static_cast<size_t>(most)); \
  }
SENDFILE(sendfile)
SENDFILE(sendfile64)

ssize_t copy_file_range(int from, off64_t* from_at, int to, off64_t* to_at, size_t size,
                        unsigned flags) {
  const ssize_t most = allowed(kWrite, "write", to, size);
  return most < 0
             ? -1
             : REAL(copy_file_range)(from, from_at, to, to_at, static_cast<size_t>(most), flags);
}

int fsync(int file) { return fails(kSync, "fsync", Path(file).text) ? -1 : REAL(fsync)(file); }
int fdatasync(int file) {
  return fails(kSync, "fsync", Path(file).text) ? -1 : REAL(fdatasync)(file);
}

#define TRUNCATE(name)                                                              \
  int name(int file, off64_t size) {                                                \
    return fails(kSync, "truncate", Path(file).text) ? -1 : REAL(name)(file, size); \
  }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

int rename(const char* from, const char* to) {
  const bool failed = fails(kName, "rename", Path(AT_FDCWD, from).text, Path(AT_FDCWD, to).text);
  return failed ? -1 : REAL(rename)(from, to);
}
int mkdir(const char* path, mode_t mode) {
  return fails(kName, "mkdir", Path(AT_FDCWD, path).text) ? -1 : REAL(mkdir)(path, mode);
}
int unlink(const char* path) {
  return fails(kRemove, "remove", Path(AT_FDCWD, path).text) ? -1 : REAL(unlink)(path);
}
int rmdir(const char* path) {
  return fails(kRemove, "remove", Path(AT_FDCWD, path).text) ? -1 : REAL(rmdir)(path);
}
int remove(const char* path) {
  return fails(kRemove, "remove", Path(AT_FDCWD, path).text) ? -1 : REAL(remove)(path);
}
int unlinkat(int folder, const char* path, int flags) {
  return fails(kRemove, "remove", Path(folder, path).text) ? -1
                                                           : REAL(unlinkat)(folder, path, flags);
}

DIR* opendir(const char* path) {
  return fails(kList, "list", Path(AT_FDCWD, path).text) ? nullptr : REAL(opendir)(path);
}
DIR* fdopendir(int folder) {
  return fails(kList, "list", Path(folder).text) ? nullptr : REAL(fdopendir)(folder);
}
dirent* readdir(DIR* folder) {
  return fails(kList, "list", Path(dirfd(folder)).text) ? nullptr : REAL(readdir)(folder);
}
dirent64* readdir64(DIR* folder) {
  return fails(kList, "list", Path(dirfd(folder)).text) ? nullptr : REAL(readdir64)(folder);
}

#define MAP(name)                                                                          \
  void* name(void* at, size_t size, int protection, int flags, int file, off64_t offset) { \
    if (file >= 0 && fails(kMap, "map", Path(file).text)) return MAP_FAILED;               \
    return REAL(name)(at, size, protection, flags, file, offset);                          \
  }
MAP(mmap)
MAP(mmap64)

void* malloc(size_t size) {
  if (!memory_fails()) return __libc_malloc(size);
  errno = ENOMEM;
  return nullptr;
}
void* calloc(size_t count, size_t size) {
  if (!memory_fails()) return __libc_calloc(count, size);
  errno = ENOMEM;
  return nullptr;
}
void* realloc(void* memory, size_t size) {
  if (!memory_fails()) return __libc_realloc(memory, size);
  errno = ENOMEM;
  return nullptr;
}
void* memalign(size_t alignment, size_t size) {
  if (!memory_fails()) return __libc_memalign(alignment, size);
  errno = ENOMEM;
  return nullptr;
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (memory_fails()) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*begin)(),
                      void (*end)(), void (*loader_end)(), void* stack) {
  program_main = main;
  const auto next =
      real<int (*)(decltype(main), int, char**, void (*)(), void (*)(), void (*)(), void*)>(
          "__libc_start_main");
  return next(start, argc, argv, begin, end, loader_end, stack);
}

}  // extern "C"
