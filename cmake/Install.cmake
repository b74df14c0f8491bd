# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` leaves: for find_package(troupe) the libraries as troupe::<folder> and the
# headers of public_headers.txt, included as <troupe/folder/name.h>; the pages for people.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)

# Components are the folders with installed headers. Their libraries need those of folders below.
file(STRINGS ${TROUPE_PUBLIC_HEADERS} public_headers REGEX "^[a-z]")
list(TRANSFORM public_headers REPLACE "/.*" "" OUTPUT_VARIABLE components)
list(REMOVE_DUPLICATES components)
set(installed "")
foreach(folder IN LISTS TROUPE_LAYERS)
  set(needs_${folder} "")
  foreach(used IN LISTS TROUPE_LAYER_${folder})
    list(APPEND needs_${folder} ${needs_${used}})
  endforeach()
  list(APPEND needs_${folder} ${folder})
  list(REMOVE_DUPLICATES needs_${folder})
  if(folder IN_LIST components)
    list(APPEND installed ${needs_${folder}})
  endif()
endforeach()
list(REMOVE_DUPLICATES installed)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dev)
# The table of troupeConfig.cmake, and an export per folder: what nobody asks for is no target.
function(troupe_install folder)
  set_target_properties(troupe_${folder} PROPERTIES EXPORT_NAME ${folder})
  install(TARGETS troupe_${folder} EXPORT troupe_${folder})
  install(EXPORT troupe_${folder} NAMESPACE troupe:: DESTINATION ${package_folder}
    FILE troupe-${folder}.cmake)
endfunction()
troupe_install(options)
list(JOIN components " " troupe_tables)
set(troupe_tables "set(troupe_components ${troupe_tables})\n")
if(TROUPE_WITH_CUDA)
  string(APPEND troupe_tables "set(TROUPE_CUDA_MAJOR ${TROUPE_CUDA_MAJOR})\n")
endif()
foreach(folder IN LISTS installed)
  troupe_install(${folder})
  get_target_property(packages troupe_${folder} TROUPE_PACKAGES)
  list(JOIN packages " " packages)
  list(JOIN needs_${folder} " " needs)
  string(APPEND troupe_tables "set(troupe_needs_${folder} ${needs})\n"
    "set(troupe_packages_${folder} ${packages})\n")
endforeach()

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/troupeConfig.cmake.in
  ${CMAKE_BINARY_DIR}/troupeConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/troupeConfig.cmake ${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/cmake/Packages.cmake ${CMAKE_SOURCE_DIR}/cmake/FindOneDNN.cmake
  DESTINATION ${package_folder})

install(DIRECTORY ${TROUPE_HEADERS_FOLDER}/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT troupe)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT troupe)
