# find_package(steersman) -> the library steersman::steersman, built with the compilers of your project.
#
#   cmake -Dsteersman_DIR=$(python -m steersman.client --cmake) ...
#
# The languages of your project: C, and Fortran where the module is wanted, too.
if(NOT TARGET steersman::steersman)
  add_library(steersman STATIC ${CMAKE_CURRENT_LIST_DIR}/steersman.c)
  target_include_directories(steersman PUBLIC ${CMAKE_CURRENT_LIST_DIR})
  set_target_properties(steersman PROPERTIES POSITION_INDEPENDENT_CODE ON)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("Fortran" IN_LIST languages)
    target_sources(steersman PRIVATE ${CMAKE_CURRENT_LIST_DIR}/steersman.f90)
    set(modules ${CMAKE_CURRENT_BINARY_DIR}/steersman-modules)
    set_target_properties(steersman PROPERTIES Fortran_MODULE_DIRECTORY ${modules})
    target_include_directories(steersman PUBLIC ${modules})
  endif()
  add_library(steersman::steersman ALIAS steersman)
endif()
