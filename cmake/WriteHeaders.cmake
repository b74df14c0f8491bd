# SPDX-License-Identifier: Apache-2.0
# cmake -D FROM=tree -D INTO=folder/troupe -D LIST=public_headers.txt -P WriteHeaders.cmake
# Copies the headers of LIST; what they include of each other gets the prefix troupe/. Files that
# stay the same keep their time, others of INTO are removed.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${LIST} headers REGEX "^[a-z]")
file(GLOB_RECURSE present RELATIVE ${INTO} ${INTO}/*)
foreach(header IN LISTS present)
  if(NOT header IN_LIST headers)
    file(REMOVE ${INTO}/${header})
  endif()
endforeach()
foreach(header IN LISTS headers)
  file(READ ${FROM}/${header} text)
  string(REPLACE "#include \"" "#include \"troupe/" text "${text}")
  set(old "")
  if(header IN_LIST present)
    file(READ ${INTO}/${header} old)
  endif()
  if(NOT text STREQUAL old)
    file(WRITE ${INTO}/${header} "${text}")
  endif()
endforeach()
