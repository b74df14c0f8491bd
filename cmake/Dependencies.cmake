# SPDX-License-Identifier: Apache-2.0
# What this build needs, found and never downloaded. What the libraries link is in Packages.cmake.
set(packages CAF OneDNN OpenSSL TLS Threads ZLIB capnp fmt httplib hwy isal prometheus spdlog spng
  turbojpeg xxhash)
if(NOT TROUPE_SANITIZE STREQUAL "thread")
  list(APPEND packages OpenMP)
endif()
foreach(package IN LISTS packages)
  troupe_find_package(${package} REQUIRED found)
endforeach()

# Headers and programs only: nothing that a user of the libraries needs.
find_package(CapnProto REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_path(RANDOM123_INCLUDE Random123/philox.h REQUIRED)
find_path(ASIO_INCLUDE asio.hpp REQUIRED)
if(TROUPE_TESTS)
  find_package(Catch2 REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(TROUPE_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
