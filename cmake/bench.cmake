# Benchmarks of single kernels, one program a file (target vicinal_bench). bench/run.py, which `make bench` runs,
# measures whole searches and needs none of them.
add_custom_target(vicinal_bench)
file(GLOB VICINAL_BENCH CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/bench_*.cpp)
foreach(source IN LISTS VICINAL_BENCH)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE vicinal_objects)
  add_dependencies(vicinal_bench ${name})
endforeach()

# The standard library's selections, for bench/selections.py to load.
add_library(std_select MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/std_select.cpp)
target_compile_options(std_select PRIVATE -O3)
target_link_libraries(std_select PRIVATE Threads::Threads)

# Our k-NN for bench/knn_cuda.py to load beside the others.
add_library(knn_engine MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/knn_engine.cpp)
target_link_libraries(knn_engine PRIVATE vicinal)

# A permutation index on a device and on the host.
add_executable(index_device EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/index_device.cpp)
target_link_libraries(index_device PRIVATE vicinal)
