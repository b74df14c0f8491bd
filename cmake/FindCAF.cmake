# SPDX-License-Identifier: Apache-2.0
# Debian's libcaf-dev has no CMake files: this makes the target CAF::core from header and library.
find_path(CAF_INCLUDE_DIR caf/actor_system.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF DEFAULT_MSG CAF_CORE_LIBRARY CAF_INCLUDE_DIR)
if(CAF_FOUND AND NOT TARGET CAF::core)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION ${CAF_CORE_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
endif()
