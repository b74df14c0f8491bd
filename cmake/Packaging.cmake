# SPDX-License-Identifier: Apache-2.0
# The target `debs` builds two Debian packages: troupe, with services, completion and manual pages,
# and libtroupe-dev with what find_package(troupe) needs. `cpack -G DEB` packs what is built.
# Included last, when all targets are known.
set(deploy ${CMAKE_SOURCE_DIR}/deploy)

# What shells and man read comes from the program itself, when it is installed.
install(CODE "
  set(program $<TARGET_FILE:troupe>)
  set(share \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share)
  set(manual \${share}/man/man1)
  set(bash \${share}/bash-completion/completions/troupe)
  set(zsh \${share}/zsh/vendor-completions/_troupe)
  set(fish \${share}/fish/vendor_completions.d/troupe.fish)
  foreach(shell bash zsh fish)
    get_filename_component(folder \${\${shell}} DIRECTORY)
    file(MAKE_DIRECTORY \${folder})
    execute_process(COMMAND \${program} completion \${shell} OUTPUT_FILE \${\${shell}}
      COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD \${\${shell}} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endforeach()
  execute_process(COMMAND \${program} gen man --force -o \${manual}
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages \${manual}/troupe*.1)
  execute_process(COMMAND gzip -9nf \${pages} COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages \${manual}/troupe*.1.gz)
  file(CHMOD \${pages} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
" COMPONENT troupe)

# In packages only: their places are the system's, whatever the prefix.
install(FILES ${deploy}/systemd/troupe-coordinator.service ${deploy}/systemd/troupe-agent.service
  DESTINATION /usr/lib/systemd/system COMPONENT troupe EXCLUDE_FROM_ALL)
install(FILES ${deploy}/systemd/troupe.sysusers DESTINATION /usr/lib/sysusers.d
  RENAME troupe.conf COMPONENT troupe EXCLUDE_FROM_ALL)
install(FILES ${deploy}/systemd/coordinator.env ${deploy}/systemd/agent.env
  DESTINATION /etc/troupe COMPONENT troupe EXCLUDE_FROM_ALL)
foreach(component troupe dev)
  set(name troupe)
  if(component STREQUAL "dev")
    set(name libtroupe-dev)
  endif()
  set(folder /usr/share/doc/${name})
  install(FILES ${deploy}/debian/copyright DESTINATION ${folder} COMPONENT ${component}
    EXCLUDE_FROM_ALL)
  install(CODE "
    set(folder \$ENV{DESTDIR}${folder})
    file(MAKE_DIRECTORY \${folder})
    file(WRITE \${folder}/changelog \"troupe (${PROJECT_VERSION}) unstable; urgency=medium\\n\\n\"
      \"  * See CHANGELOG.md of the package troupe.\\n\\n\"
      \" -- The Troupe authors <troupe@troupe.example>  Sun, 01 Nov 2026 00:00:00 +0000\\n\")
    execute_process(COMMAND gzip -9nf \${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
    file(CHMOD \${folder}/changelog.gz PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    " COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

# The Debian packages that programs on the library build with, from what its folders link.
set(debian_CAF libcaf-dev)
set(debian_CUDAToolkit "")  # NVIDIA's packages, or PyPI's
set(debian_OneDNN libdnnl-dev)
set(debian_OpenMP g++)
set(debian_OpenSSL libssl-dev)
set(debian_TLS libssl-dev)
set(debian_Threads libc6-dev)
set(debian_ZLIB zlib1g-dev)
set(debian_capnp libcapnp-dev)
set(debian_fmt libfmt-dev)
set(debian_httplib libcpp-httplib-dev)
set(debian_hwy libhwy-dev)
set(debian_isal libisal-dev)
set(debian_prometheus prometheus-cpp-dev)
set(debian_spdlog libspdlog-dev)
set(debian_spng libspng-dev)
set(debian_turbojpeg libturbojpeg0-dev)
set(debian_xxhash libxxhash-dev)
set(needed pkg-config)
foreach(folder IN LISTS installed)
  get_target_property(packages troupe_${folder} TROUPE_PACKAGES)
  foreach(package IN LISTS packages)
    if(NOT DEFINED debian_${package})
      message(FATAL_ERROR "${package}: cmake/Packaging.cmake does not know its Debian package")
    endif()
    list(APPEND needed ${debian_${package}})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES needed)
list(SORT needed)
list(JOIN needed ", " needed)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Troupe authors <troupe@troupe.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL troupe dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_TROUPE_PACKAGE_NAME troupe)
set(CPACK_DEBIAN_TROUPE_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TROUPE_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TROUPE_PACKAGE_SUGGESTS "prometheus, dataset-fashion-mnist")
set(CPACK_COMPONENT_TROUPE_DESCRIPTION
  "The program: it trains networks on one machine or on many.
It serves a cluster, and agents join it. Services are not started.")
set(CPACK_DEBIAN_TROUPE_PACKAGE_CONTROL_EXTRA ${deploy}/debian/postinst ${deploy}/debian/prerm
  ${deploy}/debian/postrm ${deploy}/debian/conffiles)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtroupe-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${needed}")
set(CPACK_COMPONENT_DEV_DESCRIPTION
  "The libraries and headers for programs in C++.
CMake finds them: find_package(troupe COMPONENTS train).")
# Without the tests, which a package does not need.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
list(TRANSFORM installed PREPEND troupe_ OUTPUT_VARIABLE libraries)
# All that is installed, and nothing else.
add_custom_target(to_install DEPENDS troupe troupe_write_headers ${libraries})
add_custom_target(debs
  COMMAND ${CMAKE_CPACK_COMMAND} -G DEB
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  DEPENDS to_install
  COMMENT "Making Debian packages" VERBATIM)
