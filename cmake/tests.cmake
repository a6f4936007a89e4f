# The C++ tests. `make test` (scripts/run_tests.py) builds and runs them with everything else; the two gtest
# programs are run directly there, ctest runs what must fail to compile and the consumer of an installed vicinal.

enable_testing()
find_package(GTest REQUIRED)
find_package(rapidcheck QUIET)
find_library(VICINAL_GMP gmp REQUIRED)
find_library(VICINAL_GMPXX gmpxx REQUIRED)

function(vicinal_test_program name)
  add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
  target_compile_definitions(${name} PRIVATE VICINAL_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gtest_main ${VICINAL_GMPXX} ${VICINAL_GMP} ZLIB::ZLIB)
  if(TARGET rapidcheck)
    target_link_libraries(${name} PRIVATE rapidcheck)
  endif()
  add_dependencies(vicinal_tests ${name})
endfunction()

add_custom_target(vicinal_tests)
# tests/unit mirrors src/ and may include its headers; tests/conformance sees what users see.
file(GLOB_RECURSE VICINAL_ORACLE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/oracle/*.cpp)
file(GLOB_RECURSE VICINAL_UNIT CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/*.cpp)
file(GLOB_RECURSE VICINAL_CONFORMANCE CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/conformance/*.cpp)
if(VICINAL_UNIT)
  vicinal_test_program(vicinal_unit ${VICINAL_UNIT})
  target_link_libraries(vicinal_unit PRIVATE vicinal_objects)
endif()
if(VICINAL_CONFORMANCE)
  vicinal_test_program(vicinal_conformance ${VICINAL_CONFORMANCE} ${VICINAL_ORACLE})
  target_link_libraries(vicinal_conformance PRIVATE vicinal)
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

# A program of ten lines that knows nothing but find_package(vicinal).
if(EXISTS ${PROJECT_SOURCE_DIR}/tests/consumer/CMakeLists.txt)
  add_test(NAME install.consumer
           COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}/tests/consumer
                   -DCXX=${CMAKE_CXX_COMPILER} -P ${PROJECT_SOURCE_DIR}/cmake/consumer_test.cmake)
endif()

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
