# The packages that headwise is built with. Missing ones are named all at once, with the command that installs them.

set(missing)
set(to_install)

# headwise_missing(DEBIAN_PACKAGE WORDS...): remembers what to say.
macro(headwise_missing debian)
  list(APPEND to_install ${debian})
  string(JOIN " " words ${ARGN})
  list(APPEND missing "${words}")
endmacro()

# headwise_package(DEBIAN_PACKAGE NAME VERSION [further arguments of find_package...]); the version may be "".
macro(headwise_package debian name version)
  find_package(${name} ${version} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    set(found ${${name}_CONSIDERED_VERSIONS})
    list(REMOVE_DUPLICATES found)
    list(TRANSFORM found REPLACE "(.+)" "(found \\1)")
    headwise_missing(${debian} ${name} ${version} ${found})
  endif()
endmacro()

# headwise_module(DEBIAN_PACKAGE NAME MODULES of pkg-config...): the target is PkgConfig::NAME.
macro(headwise_module debian name)
  if(PkgConfig_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${ARGN})
  endif()
  if(NOT ${name}_FOUND)
    headwise_missing(${debian} ${ARGN})
  endif()
endmacro()

headwise_package(libc6-dev Threads "")
headwise_package(libfmt-dev fmt 9)
headwise_package(libhwy-dev hwy 1.0.3)
headwise_package(pkg-config PkgConfig "")
headwise_module(libutf8proc-dev utf8proc libutf8proc)
# Debian 13's sentencepiece.pc requires protobuf-lite, and its package does not bring it.
headwise_module("libsentencepiece-dev libprotobuf-dev" sentencepiece sentencepiece)
headwise_package(zlib1g-dev ZLIB "")
# Headers only: the installed library does not need these.
headwise_package(nlohmann-json3-dev nlohmann_json 3.11)
headwise_package(libeigen3-dev Eigen3 "" NO_MODULE)
# The program.
headwise_package(libcli11-dev CLI11 2.1)
# http_server.cc overrides parts of the library that others than these versions have differently.
headwise_module(libcpp-httplib-dev httplib cpp-httplib>=0.11 cpp-httplib<0.19)
if(HEADWISE_TESTS)
  headwise_package(libgtest-dev GTest 1.12)
  if(NOT TARGET GTest::gmock)
    headwise_missing(libgmock-dev "GoogleTest's gmock")
  endif()
endif()

if(missing)
  list(JOIN missing ", " missing)
  list(JOIN to_install " " to_install)
  message(FATAL_ERROR "Missing or unsuitable: ${missing}. "
                      "Debian 12, Ubuntu 24.04 and newer have them: apt-get install ${to_install}")
endif()
