// The emulator's own test, compiled for the device: it must find there what it finds under the emulator.
#include "simt/test_simt.cpp"
