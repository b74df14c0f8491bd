# SPDX-License-Identifier: Apache-2.0
# cmake -D FROM=folder -D NAMES=a.yml,b/c.json -D INTO=file.cc -P EmbedFiles.cmake
# Writes a source whose watching_files() (apps/watching_files.h) holds these files' names and texts.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" names "${NAMES}")
file(WRITE ${INTO} "// Written by cmake/EmbedFiles.cmake.
#include \"apps/watching_files.h\"

#include <array>

namespace troupe::apps {

std::span<const WatchingFile> watching_files() {
  static constexpr std::array kFiles = {
")
foreach(name IN LISTS names)
  file(READ ${FROM}/${name} text)
  string(FIND "${text}" ")troupe\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${FROM}/${name}: holds the mark that ends a text of the generated source")
  endif()
  file(APPEND ${INTO} "      WatchingFile{\"${name}\", R\"troupe(" "${text}" ")troupe\"},\n")
endforeach()
file(APPEND ${INTO} "  };
  return kFiles;
}

}  // namespace troupe::apps
")
