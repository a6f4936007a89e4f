# libvicinal. Its objects are a target of their own, so that the unit tests can reach what the library hides.

find_package(TBB REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_path(VICINAL_XXHASH xxhash.h DOC "Folder of xxhash.h (Debian: libxxhash-dev)" REQUIRED)  # compiled in, not linked

file(GLOB_RECURSE VICINAL_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cpp)
add_library(vicinal_objects OBJECT ${VICINAL_SOURCES})
target_include_directories(vicinal_objects PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
if(NOT VICINAL_XXHASH STREQUAL "/usr/include")
  target_include_directories(vicinal_objects SYSTEM PRIVATE ${VICINAL_XXHASH})
endif()
# No build defines NDEBUG: what a debug build checks besides asks for this.
target_compile_definitions(vicinal_objects PRIVATE VICINAL_VERSION="${PROJECT_VERSION}" $<$<CONFIG:Debug>:VICINAL_DEBUG>)
target_link_libraries(vicinal_objects PUBLIC TBB::tbb ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS})

# HDF5 is one file, src/io/hdf5.cpp, which without the library says so: docs/design/0011-hdf5.md. Debian keeps several
# builds of it side by side; the serial one is meant.
if(VICINAL_HDF5)
  find_path(VICINAL_HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(VICINAL_HDF5_LIBRARY NAMES hdf5_serial hdf5 PATH_SUFFIXES hdf5/serial)
  mark_as_advanced(VICINAL_HDF5_INCLUDE VICINAL_HDF5_LIBRARY)
  if(VICINAL_HDF5_INCLUDE AND VICINAL_HDF5_LIBRARY)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/io/hdf5.cpp PROPERTIES
      COMPILE_DEFINITIONS VICINAL_HDF5 COMPILE_OPTIONS "-isystem${VICINAL_HDF5_INCLUDE}")  # others' headers: no warnings of theirs
    set(VICINAL_HDF5_LINK ${VICINAL_HDF5_LIBRARY})
  elseif(NOT VICINAL_HDF5 STREQUAL "AUTO")
    message(FATAL_ERROR "VICINAL_HDF5=${VICINAL_HDF5}: hdf5.h or libhdf5 was not found (Debian: libhdf5-dev)")
  endif()
endif()
target_link_libraries(vicinal_objects PUBLIC ${VICINAL_HDF5_LINK})

# One file an instruction set, each with its own flags; nothing else in the library may use them.
# On other processors these files compile to nothing and need no flags.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  file(GLOB_RECURSE VICINAL_AVX2 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cpu/*_avx2.cpp)
  file(GLOB_RECURSE VICINAL_AVX512 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cpu/*_avx512.cpp)
  set(VICINAL_AVXVNNI ${PROJECT_SOURCE_DIR}/src/cpu/isa/int8_avxvnni.cpp)
  set(VICINAL_AVX512VNNI ${PROJECT_SOURCE_DIR}/src/cpu/isa/int8_avx512vnni.cpp ${PROJECT_SOURCE_DIR}/src/cpu/isa/int8_avx512amx.cpp)
  set(VICINAL_AVX512POPCNT ${PROJECT_SOURCE_DIR}/src/cpu/isa/bits_avx512popcnt.cpp)
  set_source_files_properties(${VICINAL_AVXVNNI} PROPERTIES COMPILE_OPTIONS "-mavx2;-mavxvnni")
  set_source_files_properties(${VICINAL_AVX512VNNI} PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mavx2;-mprefer-vector-width=512")
  set_source_files_properties(${VICINAL_AVX512POPCNT} PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vpopcntdq;-mavx2;-mprefer-vector-width=512")
  set_source_files_properties(${VICINAL_AVX2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mpopcnt")
  set_source_files_properties(${VICINAL_AVX512} PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx2;-mfma;-mf16c;-mpopcnt;-mprefer-vector-width=512")
  list(APPEND VICINAL_AVX2 ${VICINAL_AVXVNNI})      # what follows holds for all of them
  list(APPEND VICINAL_AVX512 ${VICINAL_AVX512VNNI} ${VICINAL_AVX512POPCNT})
endif()

# Loops over the rows of a warping, whose number is known: -O2 leaves half of them to scalar code.
file(GLOB VICINAL_WARPING CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cpu/permutation/warping_*.cpp)
if(VICINAL_OPTIMIZE STREQUAL "-O2")
  set_property(SOURCE ${VICINAL_WARPING} APPEND PROPERTY COMPILE_OPTIONS "-O3")
endif()

# Half of the time to compile the library goes into the standard's headers, so eight files are compiled at a time. The formats stay alone: they
# give the same names to what each of them does; so do the plain twins of the files above.
set_target_properties(vicinal_objects PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
file(GLOB_RECURSE alone CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cpu/*_plain.cpp)
foreach(source IN LISTS VICINAL_SOURCES)
  file(STRINGS ${source} format REGEX "^const Format [a-z0-9]+_format" LIMIT_COUNT 1)
  if(format)
    list(APPEND alone ${source})
  endif()
endforeach()
# The unit tests have the linker send calls of what plugin.cpp defines to devices that are made up: calls from other files. session.cpp would lie
# beside selection, which has a `before` of its own; threshold.cpp has many instantiations.
foreach(stem backend/plugin cpu/session cpu/select/threshold)
  list(APPEND alone ${PROJECT_SOURCE_DIR}/src/${stem}.cpp)
endforeach()
set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Where a sanitizer is in, headers are precompiled besides. Elsewhere they are not: they lie in the build's own folder, so ccache could not give what
# one build compiled to another, the wheel's.
if(VICINAL_SANITIZE)
  target_precompile_headers(vicinal_objects PRIVATE <algorithm> <atomic> <chrono> <cmath> <cstdint> <cstring> <functional>
                            <limits> <memory> <new> <optional> <span> <string> <string_view> <utility> <vector>)
  target_compile_options(vicinal_objects PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  set_source_files_properties(${VICINAL_AVX2} ${VICINAL_AVX512} ${PROJECT_SOURCE_DIR}/src/core/parallel.cpp PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON)  # their own flags
  # What takes the time of a test stays optimized, in presets that are not (half of the time to compile).
  foreach(stem isa/int8_plain isa/float_plain rerank/rerank strings/myers_plain)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cpu/${stem}.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS -O1)
  endforeach()
  set_property(SOURCE ${VICINAL_AVX2} ${VICINAL_AVX512} APPEND PROPERTY COMPILE_OPTIONS -O1)
endif()

# UBSan triples the size of unrolled intrinsics and the time to compile them; the plain table, which does the same
# work and must agree with these to the bit, is checked in full. AddressSanitizer stays.
if(VICINAL_SANITIZE MATCHES "undefined")
  set_property(SOURCE ${VICINAL_AVX2} ${VICINAL_AVX512} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # checks as calls: a third of the time to compile
    set_property(SOURCE ${VICINAL_AVX2} ${VICINAL_AVX512} APPEND PROPERTY COMPILE_OPTIONS -fsanitize-address-outline-instrumentation)
  endif()
endif()

# ThreadSanitizer cannot see inside oneTBB. The one file that calls it is left uninstrumented and says itself what a
# loop orders (LoopOrder there), so no suppression hides a real race. It is compiled with -O2: of small functions of the standard
# library that are not inlined, the linker would take the instrumented copy of another file for oneTBB's own memory too.
if(VICINAL_SANITIZE STREQUAL "thread")
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/core/parallel.cpp PROPERTIES
    COMPILE_OPTIONS "-fno-sanitize=thread;-O2" COMPILE_DEFINITIONS VICINAL_TSAN)
endif()

add_library(vicinal SHARED $<TARGET_OBJECTS:vicinal_objects>)
add_library(vicinal::vicinal ALIAS vicinal)
target_include_directories(vicinal PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(vicinal PUBLIC cxx_std_20)
target_link_libraries(vicinal PRIVATE TBB::tbb ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS} ${VICINAL_HDF5_LINK})
if(NOT VICINAL_SANITIZE)
  target_link_options(vicinal PRIVATE -Wl,--no-undefined,-z,nodelete)  # threads wait in it until the process ends (core/kept_threads.hpp)
endif()
# No program puts a function of its own in place of one of the library's, so calls within it go straight there.
target_link_options(vicinal PRIVATE -Wl,-Bsymbolic-functions)
set_target_properties(vicinal PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 INSTALL_RPATH "$ORIGIN")

include(CMakePackageConfigHelpers)
set(VICINAL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/vicinal)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/vicinalConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS vicinal EXPORT vicinalTargets COMPONENT library LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        NAMELINK_COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/vicinal DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development)
install(EXPORT vicinalTargets NAMESPACE vicinal:: FILE vicinalTargets.cmake DESTINATION ${VICINAL_PACKAGE_DIR}
        COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/vicinalConfig.cmake ${PROJECT_BINARY_DIR}/vicinalConfigVersion.cmake
        DESTINATION ${VICINAL_PACKAGE_DIR} COMPONENT development)
