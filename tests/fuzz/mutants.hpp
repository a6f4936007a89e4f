// A plain loop in the place of libFuzzer, for many mutants in little time and without its instrumentation: compiled with -include of
// this file, a fuzz target becomes a program. Seeds are files; each round changes a few bytes of one, or cuts it.
//   g++ -std=c++20 -O2 -I include -I src -I tests/fuzz -include tests/fuzz/mutants.hpp tests/fuzz/fuzz_index_file.cpp
//     build/CMakeFiles/vicinal_objects.dir/src/io/*.o -L build/lib -lvicinal -Wl,-rpath,$PWD/build/lib -o mutants
//   ./mutants 1000000 tests/fuzz/seeds/index_file/*
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "mutants ROUNDS SEED...\n"), 2;
  std::vector<std::vector<std::uint8_t>> seeds;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::mt19937_64 random(20261122);
  const long rounds = std::atol(argv[1]);
  for (long round = 0; round < rounds; ++round) {
    std::vector<std::uint8_t> mutant = seeds[random() % seeds.size()];
    mutant[0] = static_cast<std::uint8_t>(random());
    for (unsigned changes = 1 + static_cast<unsigned>(random() % 4); changes > 0; --changes) {
      const std::size_t at =
          1 + (random() % 2 == 0 ? random() % 800 : random() % (mutant.size() - 1)) % (mutant.size() - 1);
      if (random() % 4 == 0) {  // a whole number
        const std::uint64_t wide[] = {0, 1, 255, 1ULL << 31, 1ULL << 40, 1ULL << 60, ~0ULL, random()};
        const std::uint64_t number = wide[random() % 8];
        for (std::size_t b = 0; b < 8 && at + b < mutant.size(); ++b)
          mutant[at + b] = static_cast<std::uint8_t>(number >> (8 * b));
      } else {
        mutant[at] = static_cast<std::uint8_t>(random() % 2 == 0 ? random() : mutant[at] ^ 1u << (random() % 8));
      }
    }
    if (random() % 16 == 0) mutant.resize(1 + random() % mutant.size());
    LLVMFuzzerTestOneInput(mutant.data(), mutant.size());
    if (round % 100000 == 99999) std::printf("%ld mutants\n", round + 1), std::fflush(stdout);
  }
}
