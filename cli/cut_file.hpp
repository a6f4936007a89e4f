// A mapped file that another program cuts short while the command runs: the system says so by a signal.
#pragma once

namespace cli {

/// Turns SIGBUS over a mapped file into one line, `vicinal: error [IoError]: FILE: ...`, and the exit status of an
/// IoError. The library itself installs no handlers; any other SIGBUS stays what it is.
void watch_for_cut_files();

}  // namespace cli
