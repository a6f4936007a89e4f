# find_package(vicinal) gives vicinal::vicinal. The library brings its own dependencies; a consumer needs none.
include(${CMAKE_CURRENT_LIST_DIR}/vicinalTargets.cmake)
