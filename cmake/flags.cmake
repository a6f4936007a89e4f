# How everything is compiled. The bits of every answer hang on the first rule: no contraction and no
# fast-math anywhere, so a fused multiply-add is only ever one that the source spells out.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# A program or library finds ours from where it is itself ($ORIGIN), and has one RUNPATH in the build tree and installed. CMake would
# fill up one that it means to replace with colons: empty entries, for which the loader takes the current directory.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(VICINAL_OPTIMIZE "-O2" CACHE STRING "Optimisation and debug information of a Release build")
set(CMAKE_CXX_FLAGS_RELEASE "${VICINAL_OPTIMIZE}")

# The sloppiness is what ccache asks for where headers are precompiled. That it reads what the compiler says it included, and does
# not preprocess first, saves a tenth of a build from nothing. What a build writes for several files that are compiled at a time has a path
# relative to the build, so that another build of the tree (the wheel's) gets what this one compiled.
find_program(VICINAL_CCACHE ccache)
if(VICINAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(base CCACHE_BASEDIR=${PROJECT_BINARY_DIR})
  if(DEFINED ENV{CCACHE_BASEDIR})
    set(base)  # who shares a cache between checkouts has one of their own
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 ${base} CCACHE_SLOPPINESS=pch_defines,time_macros
      ${VICINAL_CCACHE})
endif()

# CUDA has its own: cmake/cuda.cmake.
# -Werror=switch: an enumerator that a switch forgets does not compile; no switch over an enum of ours has a default, which would hide it.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-semantic-interposition;-Wall;-Wextra;-Wpedantic;-Werror=switch>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Wno-restrict>)  # g++ 12 sees overlaps in "text" + string that are not there (GCC bug 105651)
endif()
if(VICINAL_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(VICINAL_SANITIZE)
  add_compile_definitions(VICINAL_SANITIZED)
  add_compile_options(-fsanitize=${VICINAL_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${VICINAL_SANITIZE})
  if(VICINAL_SANITIZE MATCHES "undefined")
    # AddressSanitizer itself stops at what these four check ahead of every access; without them the library compiles in two thirds of the time.
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=null,object-size,vptr,pointer-overflow)
  endif()
endif()

# vicinal_precompile(TARGET LEVEL HEADER...): for targets whose time goes into headers of others, not into arithmetic.
function(vicinal_precompile target level)
  target_precompile_headers(${target} PRIVATE ${ARGN})
  target_compile_options(${target} PRIVATE -O${level} $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
