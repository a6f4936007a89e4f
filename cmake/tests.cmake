# The C++ tests. `make test` (scripts/run_tests.py) builds and runs them with everything else; the two gtest
# programs are run directly there, ctest runs what must fail to compile and the consumer of an installed vicinal.

enable_testing()
find_package(GTest REQUIRED)

# tests/unit has the folders of src/ and may include its headers; tests/conformance sees what users see. Oracles and generators
# are compiled as the library is; the tests themselves, which compute little, as fast as possible. Five files at a time,
# since most of that time goes into headers: names at the top of two test files of a folder must differ.
file(GLOB_RECURSE VICINAL_UNIT CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/*.cpp)
file(GLOB VICINAL_CONFORMANCE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/conformance/*.cpp)
file(GLOB VICINAL_ORACLE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/oracle/*.cpp)
set(VICINAL_TEST_HELP ${VICINAL_CONFORMANCE})
list(FILTER VICINAL_TEST_HELP EXCLUDE REGEX "/test_[a-z_]+\\.cpp$")
list(FILTER VICINAL_CONFORMANCE INCLUDE REGEX "/test_[a-z_]+\\.cpp$")

add_library(vicinal_test_help OBJECT EXCLUDE_FROM_ALL ${VICINAL_TEST_HELP} ${VICINAL_ORACLE})
target_compile_definitions(vicinal_test_help PUBLIC VICINAL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
target_include_directories(vicinal_test_help PUBLIC ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(vicinal_test_help PUBLIC GTest::gtest ZLIB::ZLIB Threads::Threads)
set(VICINAL_TEST_LEVEL 1)
if(VICINAL_SANITIZE)
  set(VICINAL_TEST_LEVEL 0)
endif()
if(VICINAL_SANITIZE)
  target_compile_options(vicinal_test_help PRIVATE -O1)
endif()
set_target_properties(vicinal_test_help PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/oracle/oracle.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)  # g++ warns of local types

# What src/cuda does on the host is tested with a runtime that is made up, and needs the real one's headers.
find_path(VICINAL_CUDA_INCLUDE cuda_runtime_api.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
mark_as_advanced(VICINAL_CUDA_INCLUDE)
if(NOT VICINAL_CUDA_INCLUDE)
  list(FILTER VICINAL_UNIT EXCLUDE REGEX "/unit/cuda/")
endif()

add_custom_target(vicinal_tests)
if(VICINAL_UNIT)
  # Kernels on the emulator, whose words are CUDA's: alone, and not beside the runtime's headers.
  set(VICINAL_EMULATED ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_strings.cpp ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_prepare.cpp ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search.cpp
      ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_devices.cpp ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_fused.cpp ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_wgmma.cpp
      ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_device.cpp ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_speculation.cpp
      ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_symmetric.cpp
      ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_rows.cpp ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_states.cpp
      ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search_pilot.cpp
      ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_permutation.cpp ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_match.cpp ${PROJECT_SOURCE_DIR}/tests/simt/fibers.cpp)
  # A program of their own: address checks of unrolled kernels take a third of a sanitizer's build, and `make asan` alone has them.
  list(REMOVE_ITEM VICINAL_UNIT ${VICINAL_EMULATED})
  set(VICINAL_EMULATED_LEVEL -O2)
  if(VICINAL_SANITIZE MATCHES "undefined")
    set(VICINAL_EMULATED_LEVEL "-O1;-fno-sanitize=undefined")
  endif()
  add_executable(vicinal_unit EXCLUDE_FROM_ALL ${VICINAL_UNIT})
  add_executable(vicinal_unit_device EXCLUDE_FROM_ALL ${VICINAL_EMULATED})
  target_compile_options(vicinal_unit_device PRIVATE -Wno-unknown-pragmas -Wno-pass-failed ${VICINAL_EMULATED_LEVEL})
  # The kernels of a search are compiled once for all of its tests.
  file(GLOB searches ${PROJECT_SOURCE_DIR}/tests/unit/cuda/test_search*.cpp)
  set_source_files_properties(${searches} PROPERTIES UNITY_GROUP search)
  set_target_properties(vicinal_unit_device PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_include_directories(vicinal_unit_device PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(vicinal_unit_device PRIVATE vicinal_objects GTest::gtest_main)
  target_link_options(vicinal_unit_device PRIVATE -Wl,--wrap=_ZN7vicinal12cuda_devicesEv)  # as below, in tests/unit/cuda/test_search_devices.cpp
  add_dependencies(vicinal_tests vicinal_unit_device)
  target_compile_definitions(vicinal_unit PRIVATE VICINAL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
  target_include_directories(vicinal_unit PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(VICINAL_CUDA_INCLUDE)
    target_include_directories(vicinal_unit SYSTEM PRIVATE ${VICINAL_CUDA_INCLUDE})
  endif()
  target_link_libraries(vicinal_unit PRIVATE vicinal_objects GTest::gtest_main)
  target_link_options(vicinal_unit PRIVATE -Wl,--wrap=_ZN7vicinal12cuda_devicesEv)  # tests/unit/pipeline/test_devices.cpp has devices of its own
  set_target_properties(vicinal_unit PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
  if(VICINAL_SANITIZE MATCHES "undefined")
    target_compile_options(vicinal_unit PRIVATE -fno-sanitize=undefined)  # which the library that they test has
  endif()
  vicinal_precompile(vicinal_unit ${VICINAL_TEST_LEVEL} <gtest/gtest.h>)
  add_dependencies(vicinal_tests vicinal_unit)
endif()
if(VICINAL_CONFORMANCE)
  add_executable(vicinal_conformance EXCLUDE_FROM_ALL ${VICINAL_CONFORMANCE})
  target_link_libraries(vicinal_conformance PRIVATE vicinal vicinal_test_help)
  set_target_properties(vicinal_conformance PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
  vicinal_precompile(vicinal_conformance ${VICINAL_TEST_LEVEL} <gtest/gtest.h>)
  add_dependencies(vicinal_tests vicinal_conformance)
endif()

# Misuse that the compiler must refuse. The first line of each file is "// expect: REGEX" of the message.
file(GLOB VICINAL_MISUSE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/compile_fail/*.cpp)
foreach(source IN LISTS VICINAL_MISUSE)
  get_filename_component(stem ${source} NAME_WE)
  file(STRINGS ${source} first LIMIT_COUNT 1)
  if(NOT first MATCHES "^// expect: (.+)$")
    message(FATAL_ERROR "${source}: the first line must be '// expect: REGEX'")
  endif()
  add_test(NAME compile_fail.${stem}
           COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -I${PROJECT_SOURCE_DIR}/include ${source})
  set_tests_properties(compile_fail.${stem} PROPERTIES PASS_REGULAR_EXPRESSION "error: .*(${CMAKE_MATCH_1})")
endforeach()

if(NOT VICINAL_SANITIZE)  # the sanitizer's compiler is not that of C, and it has an operator new of its own
  # The C face, by a C compiler; C is a language of the tests only.
  enable_language(C)
  add_executable(test_capi EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/capi/test_capi.c
                                             ${PROJECT_SOURCE_DIR}/tests/capi/test_corpora.c)
  set_target_properties(test_capi PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_compile_options(test_capi PRIVATE -pedantic-errors -Werror)
  target_link_libraries(test_capi PRIVATE vicinal)
  add_dependencies(vicinal_tests test_capi)
  add_test(NAME capi COMMAND test_capi ${PROJECT_BINARY_DIR})

  # Each call that the library makes of these is refused in turn; the linker sends them to tests/faults/injection.cpp.
  file(GLOB VICINAL_FAULTS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/faults/*.cpp)
  add_executable(vicinal_faults EXCLUDE_FROM_ALL ${VICINAL_FAULTS})
  target_link_libraries(vicinal_faults PRIVATE vicinal_objects)
  foreach(call open fstat close fsync rename pread write pwrite getrandom mmap munmap aligned_alloc strdup)
    target_link_options(vicinal_faults PRIVATE -Wl,--wrap=${call})
  endforeach()
  add_dependencies(vicinal_tests vicinal_faults)
  add_test(NAME faults COMMAND vicinal_faults)
endif()

# A program of ten lines that knows nothing but find_package(vicinal).
if(EXISTS ${PROJECT_SOURCE_DIR}/tests/consumer/CMakeLists.txt)
  add_test(NAME install.consumer
           COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/tests/consumer
                   -DCXX=${CMAKE_CXX_COMPILER} -P ${PROJECT_SOURCE_DIR}/cmake/consumer_test.cmake)
endif()

# A project that takes the tree as a part of itself gets the library alone; with the command asked for, that too.
foreach(asked "" ".asked")
  set(flags "")
  if(asked)
    set(flags -DVICINAL_BUILD_CLI=ON -DASKED=ON)
  endif()
  add_test(NAME subproject${asked}
           COMMAND ${CMAKE_COMMAND} --fresh -S ${PROJECT_SOURCE_DIR}/tests/subproject -B ${PROJECT_BINARY_DIR}/subproject${asked}
                   -DVICINAL=${PROJECT_SOURCE_DIR} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} ${flags})
endforeach()

# libFuzzer programs, for clang: cmake --preset fuzz, then run build-fuzz/bin/fuzz_readers FOLDER.
if(VICINAL_SANITIZE MATCHES "fuzzer")
  file(GLOB VICINAL_FUZZ CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_*.cpp)
  add_custom_target(vicinal_fuzz)
  foreach(source IN LISTS VICINAL_FUZZ)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${name} PRIVATE vicinal_objects)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(vicinal_fuzz ${name})
  endforeach()
endif()
