// Selections that partition, sort or scan words.
#pragma once
#include "cuda/select/bitonic.cuh"
#include "cuda/select/merge.cuh"
#include "cuda/select/quick_block.cuh"
#include "cuda/select/quick_warp.cuh"
#include "cuda/select/radix.cuh"
#include "cuda/select/scan.cuh"
