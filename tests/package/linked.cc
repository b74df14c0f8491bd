// SPDX-License-Identifier: Apache-2.0
// A program that trains with an installed Troupe: linked FOLDER
extern "C" int train_quarters(const char* folder);

int main(int argc, char** argv) {
  return argc == 2 ? train_quarters(argv[1]) : 2;
}
