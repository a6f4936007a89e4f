# libvicinal_cuda.so, a backend in a library of its own that libvicinal.so opens when a CUDA device is named: it is linked against
# libvicinal and not against the driver, so both run where there is none. docs/design/0013-cuda-plugin.md.
#   VICINAL_CUDA                AUTO | PLUGIN | OFF; no sanitizer of the host sees into it, so their builds leave it out
#   VICINAL_CUDA_ARCHITECTURES  as CMake spells them: "90a-real"; "80-virtual;90a-real" runs on all that are newer too
#   VICINAL_CUDA_DELAYS         ON: warps of kernels wait here and there for a random time, to test what orders them

set(VICINAL_CUDA_DELAYS OFF CACHE BOOL "Kernels wait at random moments, for tests")
set(VICINAL_CUDA_ARCHITECTURES "90a-real" CACHE STRING "Devices that libvicinal_cuda.so has code for")
if(NOT VICINAL_CUDA MATCHES "^(AUTO|PLUGIN|OFF)$")
  message(FATAL_ERROR "VICINAL_CUDA=${VICINAL_CUDA}: AUTO, PLUGIN or OFF")
endif()
set(VICINAL_HAVE_CUDA OFF)
if(VICINAL_CUDA STREQUAL "OFF" OR VICINAL_SANITIZE)
  return()
endif()

find_program(VICINAL_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(VICINAL_NVCC)
if(VICINAL_NVCC AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(ENV{CUDACXX} ${VICINAL_NVCC})
endif()
if(VICINAL_NVCC OR CMAKE_CUDA_COMPILER OR DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_ARCHITECTURES ${VICINAL_CUDA_ARCHITECTURES})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  if(VICINAL_CUDA STREQUAL "PLUGIN")
    message(FATAL_ERROR "VICINAL_CUDA=PLUGIN: no working nvcc was found; put it on PATH, or set CUDACXX")
  endif()
  return()
endif()
if(VICINAL_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(VICINAL_HAVE_CUDA ON)

# As cmake/flags.cmake for the host: no contraction, no flushing of small numbers, exact division and square root.
add_library(vicinal_cuda_flags INTERFACE)
target_compile_options(vicinal_cuda_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-fmad=false;-ftz=false;-prec-div=true;-prec-sqrt=true;-Xcompiler=-ffp-contract=off,-Wall,-Wextra,-Werror=switch>")

file(GLOB_RECURSE VICINAL_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)
add_library(vicinal_cuda MODULE ${VICINAL_CUDA_SOURCES})
# These call the runtime and hold no kernel: the host's compiler takes a third of nvcc's time for them.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cuda/backend.cu ${PROJECT_SOURCE_DIR}/src/cuda/device/memory.cu ${PROJECT_SOURCE_DIR}/src/cuda/device/pinned.cu
                            ${PROJECT_SOURCE_DIR}/src/cuda/select/run.cu
  PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
target_include_directories(vicinal_cuda SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
list(JOIN VICINAL_CUDA_ARCHITECTURES "," architectures)
target_compile_definitions(vicinal_cuda PRIVATE VICINAL_VERSION="${PROJECT_VERSION}"
                                                VICINAL_CUDA_ARCHITECTURES="${architectures}")
target_include_directories(vicinal_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(vicinal_cuda PRIVATE vicinal vicinal_cuda_flags)
if(VICINAL_CUDA_DELAYS)
  target_compile_definitions(vicinal_cuda PRIVATE VICINAL_CUDA_DELAYS)
endif()
target_link_options(vicinal_cuda PRIVATE -Wl,--no-undefined)
set_target_properties(vicinal_cuda PROPERTIES
  CUDA_RUNTIME_LIBRARY Static
  CUDA_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  INSTALL_RPATH "$ORIGIN")
install(TARGETS vicinal_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)

# Programs for a machine with a GPU: the emulator's own test on the device, and the measurements of selections and strings.
if(VICINAL_BUILD_TESTS)
  add_executable(vicinal_simt_device EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/simt/test_simt_device.cu)
  target_include_directories(vicinal_simt_device PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/include
                                                         ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(vicinal_simt_device PRIVATE vicinal_cuda_flags)
  add_executable(vicinal_bounds_device EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/kernels/bounds_device.cu)
  target_include_directories(vicinal_bounds_device PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_definitions(vicinal_bounds_device PRIVATE VICINAL_CUDA_ARCHITECTURES="${architectures}")
  target_link_libraries(vicinal_bounds_device PRIVATE vicinal vicinal_cuda_flags)
  set_target_properties(vicinal_bounds_device PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endif()
if(VICINAL_BUILD_BENCH)
  add_executable(bench_select EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/bench_select.cu)
  target_link_libraries(bench_select PRIVATE vicinal vicinal_cuda_flags)
  # CUB of the package nvidia-cuda-cccl (scripts/bootstrap bench): newer than the toolkit's.
  file(GLOB VICINAL_CUB ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/include/cccl)
  if(VICINAL_CUB)
    add_library(bench_select_engines MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/select_engines.cu)
    target_include_directories(bench_select_engines BEFORE PRIVATE ${VICINAL_CUB})
    target_link_libraries(bench_select_engines PRIVATE vicinal vicinal_cuda_flags)
    set_target_properties(bench_select_engines PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  endif()
  add_executable(bench_strings EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/bench_strings.cu)
  target_include_directories(bench_strings PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(bench_strings PRIVATE vicinal vicinal_cuda_flags)
  set_target_properties(bench_strings PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endif()
