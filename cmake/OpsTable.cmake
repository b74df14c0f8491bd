# SPDX-License-Identifier: Apache-2.0
# troupe_ops_table(GENERATED file DEVICE list EXCLUDED list): lists the operators of ops/ and writes
# the table.
#
# A stem is ops/<group>/<stem>.cc, a back-end file ops/<group>/<stem>.<backend>.cc, or <stem>.cu for
# the back-end cuda; those go to DEVICE. Files of back-ends that are not in TROUPE_OPS_BACKENDS go
# to EXCLUDED: the build leaves them out.
set(TROUPE_OPS_BACKENDS onednn simd CACHE STRING "Back-ends of operators, best first")
set(TROUPE_OPS_GROUPS nn math reduce random optimizer)

function(troupe_ops_table)
  cmake_parse_arguments(OUT "" "GENERATED;DEVICE;EXCLUDED" "" ${ARGN})
  set(declarations "")
  set(operators "")
  set(device "")
  set(excluded "")
  # Device code runs on the host too, so it needs no CUDA.
  set(backends ${TROUPE_OPS_BACKENDS} cuda)
  foreach(backend IN LISTS backends)
    set(kernels_${backend} "")
  endforeach()
  foreach(group IN LISTS TROUPE_OPS_GROUPS)
    file(GLOB files CONFIGURE_DEPENDS
      ${CMAKE_SOURCE_DIR}/ops/${group}/*.cc ${CMAKE_SOURCE_DIR}/ops/${group}/*.cu)
    foreach(file IN LISTS files)
      get_filename_component(name ${file} NAME)
      string(REGEX MATCH "^([a-z0-9_]+)(\\.([a-z]+))?\\.c[cu]$" matched ${name})
      set(stem ${CMAKE_MATCH_1})
      set(backend "${CMAKE_MATCH_3}")
      if(name MATCHES "\\.cu$")
        set(backend cuda)
        list(APPEND device ${file})
      endif()
      if(NOT matched)
        message(FATAL_ERROR "${file}: none of <stem>.cc, <stem>.<backend>.cc, <stem>.cu")
      elseif(backend STREQUAL "")
        string(APPEND declarations "std::span<const OpDef> ops_${stem}();\n")
        string(APPEND operators "      ops_${stem}(),\n")
      elseif(backend IN_LIST backends)
        set(function kernels_${stem}_${backend})
        string(APPEND declarations "std::span<const BackendKernel> ${function}();\n")
        string(APPEND kernels_${backend} "      ${function}(),\n")
      else()
        list(APPEND excluded ${file})
      endif()
    endforeach()
  endforeach()
  set(kernels "")
  foreach(backend IN LISTS backends)
    string(APPEND kernels "${kernels_${backend}}")
  endforeach()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/table_sources.cc)
  file(CONFIGURE OUTPUT ${generated} @ONLY CONTENT
"// Written by cmake/OpsTable.cmake.
#include \"ops/table_sources.h\"

namespace troupe::ops {
@declarations@
std::vector<std::span<const OpDef>> stem_operators() {
  return {
@operators@  };
}

std::vector<std::span<const BackendKernel>> stem_backend_kernels() {
  return {
@kernels@  };
}
}  // namespace troupe::ops
")
  set(${OUT_GENERATED} ${generated} PARENT_SCOPE)
  set(${OUT_DEVICE} "${device}" PARENT_SCOPE)
  set(${OUT_EXCLUDED} "${excluded}" PARENT_SCOPE)
endfunction()
