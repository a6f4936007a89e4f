# The command `vicinal`, a client of the public headers like any other program; its man page and shell
# completions come from the command itself, so they cannot disagree with it.

if(SKBUILD)  # a wheel has the command where what it is made of is here: docs/design/0006-tbb-in-the-wheel.md
  foreach(package CLI11 nlohmann_json fmt SQLite3)
    find_package(${package} QUIET)
    if(NOT ${package}_FOUND)
      message(WARNING "The wheel will be without the command vicinal: CMake finds no ${package} "
                      "(Debian: libcli11-dev, nlohmann-json3-dev, libfmt-dev, libsqlite3-dev)")
      return()
    endif()
  endforeach()
endif()
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(SQLite3 REQUIRED)  # `vicinal match`: COLMAP's databases
file(GLOB VICINAL_CLI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.cpp)
add_executable(vicinal_cli ${VICINAL_CLI_SOURCES})
file(RELATIVE_PATH installed_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(search_path ${CMAKE_INSTALL_RPATH} "$ORIGIN/${installed_libraries}")  # of the build tree, and of the installed one
list(REMOVE_DUPLICATES search_path)
set_target_properties(vicinal_cli PROPERTIES OUTPUT_NAME vicinal INSTALL_RPATH "${search_path}")
target_link_libraries(vicinal_cli PRIVATE vicinal CLI11::CLI11 nlohmann_json::nlohmann_json fmt::fmt SQLite::SQLite3)
target_compile_definitions(vicinal_cli PRIVATE VICINAL_DEMO_DIR="${PROJECT_SOURCE_DIR}/data/demo")
# Its time goes into headers of others, not into arithmetic: what subcommands share is compiled several files at a time. They themselves give the same
# names to what each of them does, and stay alone.
target_compile_options(vicinal_cli PRIVATE -O1)
set_target_properties(vicinal_cli PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
foreach(source IN LISTS VICINAL_CLI_SOURCES)
  file(STRINGS ${source} subcommand REGEX "^Command register_" LIMIT_COUNT 1)
  if(subcommand)
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endforeach()
install(TARGETS vicinal_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)

if(VICINAL_BUILD_MAN)
  set(share ${PROJECT_BINARY_DIR}/share)
  file(MAKE_DIRECTORY ${share})
  add_custom_command(
    OUTPUT ${share}/vicinal.1 ${share}/vicinal.bash ${share}/_vicinal ${share}/vicinal.fish
    COMMAND vicinal_cli man > ${share}/vicinal.1
    COMMAND vicinal_cli completion bash > ${share}/vicinal.bash
    COMMAND vicinal_cli completion zsh > ${share}/_vicinal
    COMMAND vicinal_cli completion fish > ${share}/vicinal.fish
    DEPENDS vicinal_cli
    VERBATIM)
  add_custom_target(vicinal_man ALL DEPENDS ${share}/vicinal.1)
  install(FILES ${share}/vicinal.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
  install(FILES ${share}/vicinal.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
          RENAME vicinal COMPONENT command)
  install(FILES ${share}/_vicinal DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
  install(FILES ${share}/vicinal.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
          COMPONENT command)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/data/demo/ DESTINATION ${CMAKE_INSTALL_DATADIR}/vicinal/demo COMPONENT command)
