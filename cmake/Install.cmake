# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` leaves for find_package(troupe): the libraries as troupe::<folder>, the
# headers of public_headers.txt below include/troupe, and the packages they need, found by the same
# file as here.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(troupe_package ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
set(installed troupe_options)
set_target_properties(troupe_options PROPERTIES EXPORT_NAME options)
foreach(folder IN LISTS TROUPE_LAYERS)
  list(APPEND installed troupe_${folder})
  set_target_properties(troupe_${folder} PROPERTIES EXPORT_NAME ${folder})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/cmake/public_headers.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/public_headers.txt public_headers REGEX "^[a-z]")
foreach(header IN LISTS public_headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe/${folder})
endforeach()
install(TARGETS ${installed} EXPORT troupe)
install(EXPORT troupe NAMESPACE troupe:: DESTINATION ${troupe_package} FILE troupeTargets.cmake)

configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/troupeConfig.cmake.in
  ${CMAKE_BINARY_DIR}/troupeConfig.cmake INSTALL_DESTINATION ${troupe_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/troupeConfig.cmake ${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/cmake/Dependencies.cmake ${CMAKE_SOURCE_DIR}/cmake/FindCAF.cmake
  DESTINATION ${troupe_package})
