# SPDX-License-Identifier: Apache-2.0
# How packages are found: for this build, and for programs that use an installed Troupe. A folder
# names those that its library links (add_module); TROUPE_TARGET_<package> is what it links then.

# pkg-config finds these by the name given. CMake files that some of them bring ask for more than a
# program needs: prometheus-cpp's for civetweb and curl, Cap'n Proto's for a C compiler.
set(TROUPE_MODULE_capnp capnp)
set(TROUPE_MODULE_httplib cpp-httplib)
set(TROUPE_MODULE_isal libisal)
set(TROUPE_MODULE_prometheus prometheus-cpp-core)
set(TROUPE_MODULE_spng spng)
set(TROUPE_MODULE_turbojpeg libturbojpeg)
set(TROUPE_MODULE_xxhash libxxhash)
foreach(package capnp httplib isal prometheus spng turbojpeg xxhash)
  set(TROUPE_TARGET_${package} PkgConfig::troupe_${package})
endforeach()

# find_package() finds these.
set(TROUPE_TARGET_CAF CAF::core)
set(TROUPE_TARGET_CUDAToolkit CUDA::cudart_static)
set(TROUPE_TARGET_OneDNN OneDNN::OneDNN)
set(TROUPE_TARGET_OpenMP OpenMP::OpenMP_CXX)
set(TROUPE_TARGET_OpenSSL OpenSSL::Crypto)
set(TROUPE_TARGET_TLS OpenSSL::SSL)
set(TROUPE_TARGET_Threads Threads::Threads)
set(TROUPE_TARGET_ZLIB ZLIB::ZLIB)
set(TROUPE_TARGET_fmt fmt::fmt)
set(TROUPE_TARGET_hwy hwy::hwy)
set(TROUPE_TARGET_spdlog spdlog::spdlog)

# find_package(CUDAToolkit) with these arguments. Programs link the runtime of the version that
# Troupe's own code was made with, TROUPE_CUDA_MAJOR. CMake 3.25's module, of Debian 12, fails where
# the toolkit has no nvToolsExt, as CUDA 13 has none, in projects that ask for 3.25 or newer.
macro(troupe_find_cuda_toolkit)
  set(troupe_asked_for ${CMAKE_MINIMUM_REQUIRED_VERSION})
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit ${ARGN})
  set(CMAKE_MINIMUM_REQUIRED_VERSION ${troupe_asked_for})
endmacro()

# Makes the target of `package` if there is none yet; `how` is REQUIRED or QUIET. `found` becomes
# TRUE or FALSE.
function(troupe_find_package package how found)
  if(TARGET ${TROUPE_TARGET_${package}})
  elseif(DEFINED TROUPE_MODULE_${package})
    find_package(PkgConfig ${how})
    if(PkgConfig_FOUND)
      pkg_check_modules(troupe_${package} ${how} IMPORTED_TARGET ${TROUPE_MODULE_${package}})
    endif()
  elseif(package STREQUAL "CUDAToolkit")
    troupe_find_cuda_toolkit(${TROUPE_CUDA_MAJOR} ${how})
  elseif(package STREQUAL "OpenMP")
    find_package(OpenMP ${how} COMPONENTS CXX)
  elseif(package STREQUAL "TLS")
    find_package(OpenSSL ${how} COMPONENTS SSL)
  else()
    find_package(${package} ${how})
  endif()
  set(${found} FALSE PARENT_SCOPE)
  if(TARGET ${TROUPE_TARGET_${package}})
    set(${found} TRUE PARENT_SCOPE)
  endif()
endfunction()
