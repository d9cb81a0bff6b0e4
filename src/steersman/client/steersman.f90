! A simulation in Fortran talks to the walker of Steersman that started it. docs/solvers.md explains it; steersman.h says
! what each call does. Every call is a function that returns a code, and steersman_said gives the sentence to it.
!
! The compiler hands over the type and the shape of each array (Fortran 2018), so what is stored has the shape that it
! has here, and an element u(i, j) is u[i-1, j-1] in Python.
module steersman
  use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_int64_t, c_double, c_char
  implicit none
  private :: c_int, c_int32_t, c_int64_t, c_double, c_char

  integer, parameter :: STEERSMAN_OK = 0, STEERSMAN_ALONE = 1, STEERSMAN_NONE = 2
  integer, parameter :: STEERSMAN_REFUSED = -1, STEERSMAN_LOST = -2, STEERSMAN_VERSION = -3

  interface
    integer(c_int) function steersman_open() bind(C)
      import
    end function
    integer(c_int) function steersman_close() bind(C)
      import
    end function
    subroutine steersman_must(code) bind(C)  ! below 0: print the sentence and stop
      import
      integer(c_int), value :: code
    end subroutine
    subroutine steersman_said(sentence) bind(C, name="f_steersman_said")
      import
      character(kind=c_char, len=*), intent(inout) :: sentence
    end subroutine

    integer(c_int) function steersman_parameter(name, into) bind(C, name="f_steersman_parameter")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(inout), contiguous :: into(..)
    end function
    integer(c_int) function steersman_frame(name, into) bind(C, name="f_steersman_frame")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(inout), contiguous :: into(..)
    end function
    integer(c_int) function steersman_state_get(name, into) bind(C, name="f_steersman_state_get")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(inout), contiguous :: into(..)
    end function
    integer(c_int) function steersman_draw(name, into) bind(C, name="f_steersman_draw")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(inout), contiguous :: into(..)
    end function
    integer(c_int) function steersman_seed(seed, seed31) bind(C)
      import
      integer(c_int64_t), intent(out), optional :: seed
      integer(c_int32_t), intent(out), optional :: seed31
    end function

    integer(c_int) function steersman_append(name, of) bind(C, name="f_steersman_append")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(in), contiguous :: of(..)
    end function
    integer(c_int) function steersman_commit(time) bind(C)
      import
      real(c_double), value :: time
    end function
    integer(c_int) function steersman_stopped(stopped) bind(C)  ! 1: write your state now, and end
      import
      integer(c_int), intent(out) :: stopped
    end function
    integer(c_int) function steersman_state_put(name, of) bind(C, name="f_steersman_state_put")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(in), contiguous :: of(..)
    end function

    ! steersman_ask("closure", "x", x, "tendency", f, in2="t", x2=t): up to three arrays each way, by their names
    integer(c_int) function steersman_ask(name, in1, x1, out1, y1, in2, x2, in3, x3, out2, y2, out3, y3) &
        bind(C, name="f_steersman_ask")
      import
      character(kind=c_char, len=*), intent(in) :: name, in1, out1
      character(kind=c_char, len=*), intent(in), optional :: in2, in3, out2, out3
      type(*), intent(in), contiguous :: x1(..)
      type(*), intent(in), contiguous, optional :: x2(..), x3(..)
      type(*), intent(inout), contiguous :: y1(..)
      type(*), intent(inout), contiguous, optional :: y2(..), y3(..)
    end function

    integer(c_int) function steersman_put(name, a, b, c, d) bind(C, name="f_steersman_put")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(in), contiguous :: a(..)
      type(*), intent(in), contiguous, optional :: b(..), c(..), d(..)
    end function
    integer(c_int) function steersman_take(name, a, b, c, d, timeout_s, lease_s) bind(C, name="f_steersman_take")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(inout), contiguous :: a(..)
      type(*), intent(inout), contiguous, optional :: b(..), c(..), d(..)
      real(c_double), intent(in) :: timeout_s
      real(c_double), intent(in), optional :: lease_s
    end function
    integer(c_int) function steersman_read(name, a, b, c, d, timeout_s) bind(C, name="f_steersman_read")
      import
      character(kind=c_char, len=*), intent(in) :: name
      type(*), intent(inout), contiguous :: a(..)
      type(*), intent(inout), contiguous, optional :: b(..), c(..), d(..)
      real(c_double), intent(in) :: timeout_s
    end function
    integer(c_int) function steersman_ack(name) bind(C, name="f_steersman_ack")
      import
      character(kind=c_char, len=*), intent(in) :: name
    end function
  end interface
end module
