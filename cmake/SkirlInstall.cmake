# What is installed: the program, the one shared library, and the headers that plugins see. A header is included here as "ir/graph.h", so
# both include/ and include/skirl/ are on the path of those who link skirl::skirl: <skirl/ir/graph.h> and "ir/graph.h" are the same file.
# oneDNN, OpenBLAS, TBB and Graphviz are the library's own affair and not in the exported target.
include(CMakePackageConfigHelpers)

set_target_properties(skirl PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
install(TARGETS skirl EXPORT skirlTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_INCLUDEDIR}/skirl)
if(TARGET skirl_program)
  set_target_properties(skirl_program PROPERTIES INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS skirl_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Parts of the parser and of verify are nobody else's.
foreach(folder ir passes strategies)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/skirl FILES_MATCHING PATTERN "*.h"
          PATTERN ops EXCLUDE PATTERN schedules EXCLUDE PATTERN lexer.h EXCLUDE PATTERN parser.h EXCLUDE PATTERN text_parts.h EXCLUDE
          PATTERN verifier.h EXCLUDE)
endforeach()
foreach(header backend.h kernel.h step.h tensor.h tiles.h)
  install(FILES runtime/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/skirl/runtime OPTIONAL)
endforeach()
install(FILES tools/testing.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/skirl OPTIONAL)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/skirl)
install(EXPORT skirlTargets NAMESPACE skirl:: DESTINATION ${package_folder})
configure_package_config_file(cmake/skirlConfig.cmake.in ${CMAKE_BINARY_DIR}/skirlConfig.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/skirlConfigVersion.cmake COMPATIBILITY ExactVersion)
install(FILES ${CMAKE_BINARY_DIR}/skirlConfig.cmake ${CMAKE_BINARY_DIR}/skirlConfigVersion.cmake DESTINATION ${package_folder})
