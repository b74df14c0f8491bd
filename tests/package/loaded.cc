// SPDX-License-Identifier: Apache-2.0
// A program that knows nothing of Troupe and loads a shared library that trains with it, as Python
// loads a module: loaded LIBRARY FOLDER
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  void* train = library == nullptr ? nullptr : dlsym(library, "train_quarters");
  if (train == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  return reinterpret_cast<int (*)(const char*)>(train)(argv[2]);
}
