// Matching of rows that are candidates by where their keypoints are: canonical values of all candidates, on the host.
#pragma once
#include "backend/match.hpp"

namespace vicinal::cpu {

void match_guided(const MatchSpec& spec, const MatchAnswer& answer, ThreadPool& thread_pool);

}  // namespace vicinal::cpu
