# How everything is compiled: C++20, warnings are errors, release is -O2 -g1 (g++ 12 warns falsely at -O3).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)  # a build folder may be moved
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug" FORCE)
endif()

set(SKIRL_SANITIZE "" CACHE STRING "Sanitizers to build with: address (with undefined), thread, or nothing")
set_property(CACHE SKIRL_SANITIZE PROPERTY STRINGS "" address thread)

if(SKIRL_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # compiles in two thirds of the time, and the tests are short
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
endif()

# What every target of this project is compiled with; it is not exported.
add_library(skirl_compile INTERFACE)
target_compile_options(skirl_compile INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
target_include_directories(skirl_compile INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(skirl_compile INTERFACE SKIRL_VERSION="${PROJECT_VERSION}")
if(SKIRL_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(SKIRL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(NOT SKIRL_SANITIZE STREQUAL "")
  message(FATAL_ERROR "SKIRL_SANITIZE is '${SKIRL_SANITIZE}'; known: address, thread")
endif()

# One object library a folder, gathered in one shared library: skirl_folder(ir SOURCES …).
function(skirl_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(skirl_${name} OBJECT ${ARG_SOURCES})
  add_library(skirl::${name} ALIAS skirl_${name})
  target_link_libraries(skirl_${name} PRIVATE skirl_compile ${ARG_LIBRARIES})
endfunction()
