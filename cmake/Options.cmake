# SPDX-License-Identifier: Apache-2.0
# Flags that every target gets, through the interface target `troupe_options`.
add_library(troupe_options INTERFACE)
# The libraries may become part of somebody's shared library or Python module. Calls within a source
# stay direct, as nobody replaces a function of a static library at run time.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
target_compile_features(troupe_options INTERFACE cxx_std_20)
# Fused multiply-add is explicit where we want it; the compiler must not invent it. Inline functions
# of installed headers have no such sums, so programs compile with flags of their own.
set(flags -Wall -Wextra -Wshadow -Wno-missing-field-initializers
  -fno-semantic-interposition -ffp-contract=off -fno-math-errno)
list(JOIN flags "," host_flags)
target_compile_options(troupe_options INTERFACE
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CXX>:${flags}>>"
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags};-fmad=false>>"
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>>"
  # fmt 9 has no constexpr for nvcc, which its checks of format strings need.
  "$<BUILD_INTERFACE:$<$<COMPILE_LANGUAGE:CUDA>:-DFMT_USE_CONSTEXPR=1>>")
target_include_directories(troupe_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# Tests have this analysis whatever the compiler: tools/syntax.py.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(troupe_options INTERFACE $<BUILD_INTERFACE:-Wthread-safety>)
endif()
target_link_libraries(troupe_options INTERFACE Threads::Threads)

if(TROUPE_SANITIZE STREQUAL "address")
  set(TROUPE_SANITIZERS
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  # g++ 12 takes members of std::regex for uninitialized once they are instrumented.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND TROUPE_SANITIZERS -Wno-maybe-uninitialized)
  endif()
  if(TROUPE_SANITIZE_FOLDERS)  # add_module() hands them to these
    # These checks of every pointer take long to compile, and so does -O1. ASan meets a bad pointer
    # where memory is touched.
    list(APPEND TROUPE_SANITIZERS -Og -g1 -fno-sanitize=null,object-size,vptr)
  else()
    target_compile_options(troupe_options INTERFACE ${TROUPE_SANITIZERS})
  endif()
  target_link_options(troupe_options INTERFACE -fsanitize=address,undefined)
elseif(TROUPE_SANITIZE STREQUAL "thread")
  target_compile_options(troupe_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(troupe_options INTERFACE -fsanitize=thread)
elseif(TROUPE_SANITIZE)
  message(FATAL_ERROR "TROUPE_SANITIZE is '${TROUPE_SANITIZE}'; "
    "it must be empty, address or thread")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
