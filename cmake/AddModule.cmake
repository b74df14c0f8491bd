# SPDX-License-Identifier: Apache-2.0
# add_module(name [PACKAGES package...] [LIBRARIES lib...] [SOURCES file...] [EXCLUDE file...]
#   [OPTIONS option...]): the one way a folder becomes a library with its tests.

# Reads cmake/layers.txt into TROUPE_LAYERS (names, lowest first) and TROUPE_LAYER_<name> (allowed
# folders).
macro(troupe_read_layers)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${CMAKE_SOURCE_DIR}/cmake/layers.txt)
  file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/layers.txt lines REGEX "^[a-z]+:")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([a-z]+):(.*)$" unused "${line}")
    set(layer_name ${CMAKE_MATCH_1})
    separate_arguments(layer_uses UNIX_COMMAND "${CMAKE_MATCH_2}")
    list(APPEND TROUPE_LAYERS ${layer_name})
    set(TROUPE_LAYER_${layer_name} ${layer_uses})
  endforeach()
endmacro()

# Library troupe_<name> from all sources of the folder <name>, linked to the folders that
# cmake/layers.txt allows and to packages of cmake/Packages.cmake, which programs on an installed
# Troupe link too; test binaries <name>_test and <name>_slow_test from tests/<name>/*_test.cc. Of
# folders in TROUPE_TESTS_EXCEPT these have *_plain_test.cc alone: what sanitizers change. OPTIONS
# are options of the compiler.
function(add_module name)
  cmake_parse_arguments(MODULE "" "" "PACKAGES;LIBRARIES;SOURCES;EXCLUDE;OPTIONS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cc)
  if(MODULE_EXCLUDE)
    list(REMOVE_ITEM sources ${MODULE_EXCLUDE})
  endif()
  add_library(troupe_${name} STATIC ${sources} ${MODULE_SOURCES})
  add_library(troupe::${name} ALIAS troupe_${name})
  target_link_libraries(troupe_${name} PUBLIC troupe_options ${MODULE_LIBRARIES})
  foreach(package IN LISTS MODULE_PACKAGES)
    target_link_libraries(troupe_${name} PRIVATE ${TROUPE_TARGET_${package}})
  endforeach()
  set_target_properties(troupe_${name} PROPERTIES TROUPE_PACKAGES "${MODULE_PACKAGES}")
  foreach(used IN LISTS TROUPE_LAYER_${name})
    if(TARGET troupe_${used})
      target_link_libraries(troupe_${name} PUBLIC troupe_${used})
    endif()
  endforeach()
  set(sanitizers)
  if(name IN_LIST TROUPE_SANITIZE_FOLDERS)
    set(sanitizers ${TROUPE_SANITIZERS})
  endif()
  set(options ${MODULE_OPTIONS} ${sanitizers})
  target_compile_options(troupe_${name} PRIVATE ${options})
  if(NOT "OpenMP" IN_LIST MODULE_PACKAGES)  # which adds an option of its own
    troupe_precompile(troupe_${name} ${CMAKE_SOURCE_DIR}/cmake/precompiled.h ON "${options}"
      fmt::fmt)
  endif()
  if(TROUPE_TESTS)
    file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cc)
    file(GLOB helpers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*.cc)
    list(FILTER helpers EXCLUDE REGEX "_test.cc$")
    if(name IN_LIST TROUPE_TESTS_EXCEPT)
      list(FILTER tests INCLUDE REGEX "_plain_test.cc$")
      if(NOT tests)  # nobody shall take an older binary for what is tested
        file(REMOVE ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name}_test)
      endif()
    endif()
    set(slow_tests ${tests})
    list(FILTER tests EXCLUDE REGEX "_slow_test.cc$")
    list(FILTER slow_tests INCLUDE REGEX "_slow_test.cc$")
    if(tests)
      troupe_add_test(${name}_test SOURCES ${tests} ${helpers} LIBRARIES troupe_${name}
        LABELS unit OPTIONS ${sanitizers})
    endif()
    if(slow_tests)
      troupe_add_test(${name}_slow_test SOURCES ${slow_tests} ${helpers}
        LIBRARIES troupe_${name} LABELS slow OPTIONS ${sanitizers})
    endif()
  endif()
endfunction()

# Compiles what `header` includes beforehand for the sources of `target`, once for each header and
# set of options: `options` are the target's own, `pic` says whether it is position-independent code
# as libraries are, and ARGN names the libraries that have what is included.
function(troupe_precompile target header pic options)
  string(MD5 key "${header} ${options}")
  set(precompiled troupe_precompiled_${key})
  if(NOT TARGET ${precompiled})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "")
    add_library(${precompiled} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/precompiled.cc)
    target_link_libraries(${precompiled} PRIVATE troupe_options ${ARGN})
    target_compile_options(${precompiled} PRIVATE ${options})
    set_target_properties(${precompiled} PROPERTIES POSITION_INDEPENDENT_CODE ${pic})
    target_precompile_headers(${precompiled} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${header}>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # for ccache, which looks at preprocessed sources
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# A third less time to compile than -O3; the libraries, which do the work, keep that.
set(TROUPE_TEST_OPTIMIZATION $<$<CONFIG:Release>:-Og>)

# How the target `target` of tests is compiled: with `options`.
function(troupe_compile_test target options)
  target_compile_options(${target} PRIVATE ${TROUPE_TEST_OPTIMIZATION} ${options})
  troupe_precompile(${target} ${CMAKE_SOURCE_DIR}/tests/support/precompiled.h OFF
    "-fPIE;${TROUPE_TEST_OPTIMIZATION};${options}" troupe_base Catch2::Catch2)
endfunction()

# A Catch2 binary whose cases ctest runs one by one. Files named *_slow_test.cc get the label slow.
function(troupe_add_test target)
  cmake_parse_arguments(TEST "" "" "SOURCES;LIBRARIES;LABELS;OPTIONS" ${ARGN})
  if(NOT TARGET troupe_test_main)
    file(GLOB support CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.cc)
    add_library(troupe_test_main STATIC ${support})
    target_link_libraries(troupe_test_main PUBLIC troupe_base Catch2::Catch2)
    target_compile_options(troupe_test_main PRIVATE ${TROUPE_TEST_OPTIMIZATION})
  endif()
  include(Catch)
  add_executable(${target} ${TEST_SOURCES} $<TARGET_OBJECTS:troupe_operator_new>)
  target_link_libraries(${target} PRIVATE ${TEST_LIBRARIES} troupe_test_main rapidcheck)
  target_compile_definitions(${target} PRIVATE TROUPE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
    TROUPE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  troupe_compile_test(${target} "${TEST_OPTIONS}")
  set(timeout 1500)
  if("slow" IN_LIST TEST_LABELS)
    set(timeout 3000)
  endif()
  # Catch2 2 says "passed" where a name matches no case unless it is told to warn; 3 fails anyway.
  set(arguments)
  if(Catch2_VERSION VERSION_LESS 3)
    set(arguments EXTRA_ARGS --warn NoTests)
  endif()
  catch_discover_tests(${target} TEST_PREFIX "${target}: " ${arguments}
    PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT ${timeout}
      SKIP_REGULAR_EXPRESSION "skipped: no device")
endfunction()
