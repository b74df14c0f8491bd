# SPDX-License-Identifier: Apache-2.0
# cmake -D FROM=folder -D NAMES=a.yml,b/c.json -D CALL=name -D INTO=file.cc -P EmbedFiles.cmake
# Writes a source whose function CALL (apps/built_in_files.h) holds these files' names and texts.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" names "${NAMES}")
file(WRITE ${INTO} "// Written by cmake/EmbedFiles.cmake.
#include \"apps/built_in_files.h\"

#include <array>

namespace troupe::apps {

std::span<const BuiltInFile> ${CALL}() {
  static constexpr std::array kFiles = {
")
foreach(name IN LISTS names)
  file(READ ${FROM}/${name} text)
  string(FIND "${text}" ")troupe\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${FROM}/${name}: holds the mark that ends a text of the generated source")
  endif()
  file(APPEND ${INTO} "      BuiltInFile{\"${name}\", R\"troupe(" "${text}" ")troupe\"},\n")
endforeach()
file(APPEND ${INTO} "  };
  return kFiles;
}

}  // namespace troupe::apps
")
