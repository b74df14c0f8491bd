# SPDX-License-Identifier: Apache-2.0
# The headers of public_headers.txt as programs see them, in <build>/include: <troupe/base/file.h>
# includes "troupe/base/status.h". So no other name than troupe/ is searched for in a program's
# build. A program of this tree that links troupe_headers has what a user has.
set(TROUPE_PUBLIC_HEADERS ${CMAKE_SOURCE_DIR}/cmake/public_headers.txt)
set(TROUPE_HEADERS_FOLDER ${CMAKE_BINARY_DIR}/include)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TROUPE_PUBLIC_HEADERS})
file(STRINGS ${TROUPE_PUBLIC_HEADERS} sources REGEX "^[a-z]")
list(TRANSFORM sources PREPEND ${TROUPE_HEADERS_FOLDER}/troupe/ OUTPUT_VARIABLE written)
list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/)
# As byproducts, so that the same build compiles what includes a header that it writes anew.
add_custom_command(OUTPUT ${TROUPE_HEADERS_FOLDER}/written BYPRODUCTS ${written}
  COMMAND ${CMAKE_COMMAND} -D FROM=${CMAKE_SOURCE_DIR} -D INTO=${TROUPE_HEADERS_FOLDER}/troupe
    -D LIST=${TROUPE_PUBLIC_HEADERS} -P ${CMAKE_SOURCE_DIR}/cmake/WriteHeaders.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${TROUPE_HEADERS_FOLDER}/written
  DEPENDS ${sources} ${TROUPE_PUBLIC_HEADERS} ${CMAKE_SOURCE_DIR}/cmake/WriteHeaders.cmake
  COMMENT "Writing the headers that programs include" VERBATIM)
add_custom_target(troupe_write_headers ALL DEPENDS ${TROUPE_HEADERS_FOLDER}/written)
add_library(troupe_headers INTERFACE)
add_dependencies(troupe_headers troupe_write_headers)
target_include_directories(troupe_headers INTERFACE ${TROUPE_HEADERS_FOLDER})
