// How often this thread has run code of the caller, or kernels that leave registers changed beyond a call (AMX). A
// kernel that holds such registers across a callback compares the count before and after it: nearly always equal, and
// then they are as it left them.
#pragma once
#include <cstdint>

namespace vicinal {

std::uint64_t& callback_epoch() noexcept;

}  // namespace vicinal
