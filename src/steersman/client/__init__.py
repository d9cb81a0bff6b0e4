"""The client of programs in C, C++ and Fortran: steersman.h, steersman.c, steersman.f90 and a file for CMake.

`python -m steersman.client --cflags --sources` says where they lie.
"""
