// Selections that test values against a threshold from a sample.
#pragma once
#include "cuda/select/sieve_block.cuh"
#include "cuda/select/sieve_grid.cuh"
#include "cuda/select/sieve_parts.cuh"
#include "cuda/select/sieve_rows.cuh"
