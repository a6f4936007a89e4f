# cmake -DBUILD=... -DSOURCE=... -DCXX=... -P: installs BUILD into a fresh folder, builds the project SOURCE against
# it and runs it, then runs the installed command. Any failure ends the script with an error.

set(work ${BUILD}/consumer)
file(REMOVE_RECURSE ${work})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/root OUTPUT_QUIET
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${work}/build -DCMAKE_PREFIX_PATH=${work}/root
                        -DCMAKE_CXX_COMPILER=${CXX} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work}/build COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${work}/build/consumer COMMAND_ERROR_IS_FATAL ANY)
if(EXISTS ${work}/root/bin/vicinal)
  execute_process(COMMAND ${work}/root/bin/vicinal info OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
