# The CUDA kernels on the host: tests/simt is the emulator and its own test, tests/kernels runs what src/cuda launches.
# Needs nothing of the library but its headers: cmake --preset emu && cmake --build --preset emu, then bin/vicinal_simt and
# bin/vicinal_kernels. tests/simt/test_simt.cpp is for nvcc too: a device must agree with the emulator.
add_custom_target(vicinal_emu)
file(GLOB VICINAL_KERNEL_TESTS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/kernels/*.cpp)
add_library(vicinal_fibers OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/simt/fibers.cpp)
target_include_directories(vicinal_fibers PUBLIC ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/include
                                                 ${PROJECT_SOURCE_DIR}/src)
target_compile_options(vicinal_fibers PUBLIC -O1 -g1 -Wno-unknown-pragmas)  # the pragmas are nvcc's
target_link_libraries(vicinal_fibers PUBLIC GTest::gtest)

add_executable(vicinal_simt EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/simt/test_simt.cpp)
target_link_libraries(vicinal_simt PRIVATE vicinal_fibers)
add_executable(vicinal_kernels EXCLUDE_FROM_ALL ${VICINAL_KERNEL_TESTS} ${PROJECT_SOURCE_DIR}/tests/oracle/select.cpp
               ${PROJECT_SOURCE_DIR}/tests/oracle/strings.cpp)
target_link_libraries(vicinal_kernels PRIVATE vicinal_fibers GTest::gtest_main)
add_dependencies(vicinal_emu vicinal_simt vicinal_kernels)
