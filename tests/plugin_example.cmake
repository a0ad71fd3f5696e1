# Builds examples/plugin as a stranger would: against an installed skirl, then loads it into the installed program.
#   cmake -DBUILD=<skirl's build folder> -DSOURCE=<project> -DWORK=<folder> -DCOMPILER=… -P plugin_example.cmake
cmake_policy(VERSION 3.25)
function(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "${line}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
step(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/examples/plugin -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
     -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Release)
step(${CMAKE_COMMAND} --build ${WORK}/build)
step(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/build --output-on-failure)

set(skirl ${WORK}/prefix/bin/skirl)
set(plugin ${WORK}/build/libupside_down.so)
step(${skirl} list passes --plugin ${plugin})
if(NOT out MATCHES "reverse_sums[^\n]*${plugin}")
  message(FATAL_ERROR "the list does not say where the pass comes from:\n${out}")
endif()
step(${skirl} check --model "mlp(4,8)" --plugin ${plugin} --strategy "upside_down(2)")
if(NOT out MATCHES "reverse_sums")
  message(FATAL_ERROR "check did not run the plugin's pass:\n${out}")
endif()

# A library that is no plugin, and entries that are there already.
execute_process(COMMAND ${skirl} list passes --plugin ${WORK}/prefix/lib/libskirl.so RESULT_VARIABLE status ERROR_VARIABLE err)
if(NOT status EQUAL 2 OR NOT err MATCHES "exports no symbol 'skirl_plugin'")
  message(FATAL_ERROR "a library that is no plugin: status ${status}, ${err}")
endif()
execute_process(COMMAND ${skirl} list passes --plugin ${plugin} --plugin ${plugin} RESULT_VARIABLE status ERROR_VARIABLE err)
if(NOT status EQUAL 2 OR NOT err MATCHES "reverse_sums")
  message(FATAL_ERROR "a plugin that is loaded twice: status ${status}, ${err}")
endif()
