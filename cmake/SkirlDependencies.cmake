# Debian packages; scripts/build installs them. Say what was found.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(TBB REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)

# Debian's dnnl CMake config asks for OpenCL headers, so header and library are looked for here.
find_path(SKIRL_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(SKIRL_DNNL_LIBRARY dnnl REQUIRED)
find_path(SKIRL_OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-pthread x86_64-linux-gnu/openblas-pthread REQUIRED)
find_library(SKIRL_OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread REQUIRED)

find_path(SKIRL_GRAPHVIZ_INCLUDE graphviz/gvc.h REQUIRED)
find_library(SKIRL_CGRAPH_LIBRARY cgraph REQUIRED)
find_library(SKIRL_GVC_LIBRARY gvc REQUIRED)

message(STATUS "skirl: oneDNN ${SKIRL_DNNL_LIBRARY}, OpenBLAS ${SKIRL_OPENBLAS_LIBRARY}, Graphviz ${SKIRL_GVC_LIBRARY}")
