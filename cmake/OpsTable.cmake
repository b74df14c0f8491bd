# SPDX-License-Identifier: Apache-2.0
# troupe_ops_table(GENERATED file DEVICE list EXCLUDED list): lists the operators of ops/ and writes
# the table.
#
# A stem is ops/<group>/<stem>.cc, a back-end file ops/<group>/<stem>.<backend>.cc, or <stem>.cu for
# the back-end cuda. Files of back-ends that are not in TROUPE_OPS_BACKENDS go to EXCLUDED: the
# build leaves them out. DEVICE are sources that include the .cu files of a group, up to
# TROUPE_OPS_DEVICE_FILES each: for nvcc the headers are several times the work of one such file.
set(TROUPE_OPS_BACKENDS onednn simd CACHE STRING "Back-ends of operators, best first")
set(TROUPE_OPS_GROUPS nn math reduce random optimizer)
set(TROUPE_OPS_DEVICE_FILES 10)

# Appends to the list `sources` the written files that include `files` of `group`, in turn.
function(troupe_ops_device sources group files)
  set(list ${${sources}})
  list(LENGTH files count)
  math(EXPR parts "(${count} + ${TROUPE_OPS_DEVICE_FILES} - 1) / ${TROUPE_OPS_DEVICE_FILES}")
  set(part 0)
  foreach(file IN LISTS files)
    string(REPLACE "${CMAKE_SOURCE_DIR}/" "" name ${file})
    string(APPEND includes_${part} "#include \"${name}\"\n")
    math(EXPR part "(${part} + 1) % ${parts}")
  endforeach()
  while(parts)
    math(EXPR parts "${parts} - 1")
    set(source ${CMAKE_CURRENT_BINARY_DIR}/device_${group}_${parts}.cu)
    file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"// Written by cmake/OpsTable.cmake.
${includes_${parts}}")
    list(APPEND list ${source})
  endwhile()
  set(${sources} ${list} PARENT_SCOPE)
endfunction()

function(troupe_ops_table)
  cmake_parse_arguments(OUT "" "GENERATED;DEVICE;EXCLUDED" "" ${ARGN})
  set(declarations "")
  set(operators "")
  set(device "")
  set(excluded "")
  # Device code runs on the host too, so it needs no CUDA.
  set(backends ${TROUPE_OPS_BACKENDS})
  if(TROUPE_WITH_CUDA)
    list(APPEND backends cudnn cublas nvrtc)
  endif()
  list(APPEND backends cuda)
  foreach(backend IN LISTS backends)
    set(kernels_${backend} "")
  endforeach()
  foreach(group IN LISTS TROUPE_OPS_GROUPS)
    file(GLOB files CONFIGURE_DEPENDS
      ${CMAKE_SOURCE_DIR}/ops/${group}/*.cc ${CMAKE_SOURCE_DIR}/ops/${group}/*.cu)
    set(device_files "")
    foreach(file IN LISTS files)
      get_filename_component(name ${file} NAME)
      string(REGEX MATCH "^([a-z0-9_]+)(\\.([a-z]+))?\\.c[cu]$" matched ${name})
      set(stem ${CMAKE_MATCH_1})
      set(backend "${CMAKE_MATCH_3}")
      if(name MATCHES "\\.cu$")
        set(backend cuda)
        list(APPEND device_files ${file})
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
    troupe_ops_device(device ${group} "${device_files}")
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
