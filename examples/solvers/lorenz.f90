program lorenz  ! Lorenz 96 on two scales: slow x, and fast y, which cost most of the time; examples/solvers/lorenz.py runs it
  use, intrinsic :: iso_fortran_env, only: real64, int32
  use steersman
  implicit none
  integer, parameter :: K = 512, J = 32, N = J * K, WITHIN = 5           ! fast steps within a slow one
  real(real64), parameter :: F = 20, B = 10, C = 10, DT = 0.005_real64
  real(real64) :: x(K), u(K), y(N), h
  integer :: frames_each, coarse, spin, every, frame, i, code, stopped
  integer(int32) :: seed31
  logical :: fast                                                        ! y is solved while frames are stored

  frames_each = 20; coarse = 0; spin = 200; every = 10; fast = .true.; h = 0.5; seed31 = 1
  call steersman_must(steersman_open())
  call steersman_must(steersman_parameter("frames_each", frames_each))
  call steersman_must(steersman_parameter("coarse", coarse))             ! slow steps with the answer in place of y
  call steersman_must(steersman_parameter("spin", spin))                 ! slow steps before the first frame
  call steersman_must(steersman_parameter("every", every))               ! slow steps between two frames
  call steersman_must(steersman_parameter("fast", fast))
  call steersman_must(steersman_parameter("h", h))                       ! how strongly x and y are coupled
  call steersman_must(steersman_seed(seed31=seed31))
  call random_seed(put=[(seed31 + i, i = 1, 64)])
  call random_number(x); call random_number(y)
  x = 10 * x; y = 0.1_real64 * (y - 0.5_real64)
  call steersman_must(steersman_frame("x", x))
  do i = 1, coarse
    if (.not. answered()) exit                                           ! there is no model yet
    call slow_step()
  end do
  do i = 1, spin
    call advance()
  end do
  do frame = 1, frames_each
    do i = 1, every
      call advance()
    end do
    if (fast) u = coupling(y)
    call steersman_must(steersman_append("x", x))
    call steersman_must(steersman_append("u", u))
    call steersman_must(steersman_commit(frame * every * DT))
    call steersman_must(steersman_stopped(stopped))
    if (stopped /= 0) exit
  end do
  code = steersman_close()

contains

  subroutine advance()  ! by one slow step
    integer :: m
    if (fast) then
      do m = 1, WITHIN
        call full_step(DT / WITHIN)
      end do
    else if (answered()) then
      call slow_step()
    end if
  end subroutine

  logical function answered()
    code = steersman_ask("closure", "x", x, "u", u)
    call steersman_must(code)
    answered = code == STEERSMAN_OK
  end function

  subroutine slow_step()  ! Runge-Kutta of the fourth order; u stays as it is
    real(real64) :: a(K), b2(K), b3(K), b4(K)
    a = slow(x, u); b2 = slow(x + DT / 2 * a, u); b3 = slow(x + DT / 2 * b2, u); b4 = slow(x + DT * b3, u)
    x = x + DT / 6 * (a + 2 * b2 + 2 * b3 + b4)
  end subroutine

  subroutine full_step(d)
    real(real64), intent(in) :: d
    real(real64), dimension(K) :: a, a2, a3, a4
    real(real64), dimension(N) :: e, e2, e3, e4
    a = slow(x, coupling(y)); e = quick(x, y)
    a2 = slow(x + d / 2 * a, coupling(y + d / 2 * e)); e2 = quick(x + d / 2 * a, y + d / 2 * e)
    a3 = slow(x + d / 2 * a2, coupling(y + d / 2 * e2)); e3 = quick(x + d / 2 * a2, y + d / 2 * e2)
    a4 = slow(x + d * a3, coupling(y + d * e3)); e4 = quick(x + d * a3, y + d * e3)
    x = x + d / 6 * (a + 2 * a2 + 2 * a3 + a4)
    y = y + d / 6 * (e + 2 * e2 + 2 * e3 + e4)
  end subroutine

  function slow(x, u) result(rate)
    real(real64), intent(in) :: x(K), u(K)
    real(real64) :: rate(K), p(-1:K + 1)
    p(1:K) = x; p(-1:0) = x(K - 1:K); p(K + 1) = x(1)
    rate = -p(0:K - 1) * (p(-1:K - 2) - p(2:K + 1)) - x + F - u
  end function

  function quick(x, y) result(rate)
    real(real64), intent(in) :: x(K), y(N)
    real(real64) :: rate(N), p(0:N + 2)
    integer :: m
    p(1:N) = y; p(0) = y(N); p(N + 1:N + 2) = y(1:2)
    rate = -C * B * p(2:N + 1) * (p(3:N + 2) - p(0:N - 1)) - C * y
    do m = 1, K
      rate((m - 1) * J + 1:m * J) = rate((m - 1) * J + 1:m * J) + h * C / B * x(m)
    end do
  end function

  function coupling(y) result(u)
    real(real64), intent(in) :: y(N)
    real(real64) :: u(K)
    u = h * C / B * sum(reshape(y, [J, K]), dim=1)
  end function
end program
