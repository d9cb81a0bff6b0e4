program heat  ! a plate that cools between cold walls, and that sparks hit at random; examples/solvers/heat.py runs it
  use, intrinsic :: iso_fortran_env, only: real64, int32, int64
  use steersman
  implicit none
  integer, parameter :: nx = 12, ny = 16, steps = 10
  real(real64) :: u(nx, ny), source(nx, ny), spark
  integer(int64) :: dice
  integer(int32) :: seed31
  integer :: frames, frame, code, stopped

  spark = 1; frames = 20; seed31 = 1; stopped = 0; u = 0                    ! what holds where it runs alone
  call steersman_must(steersman_open())
  call steersman_must(steersman_parameter("spark", spark))
  call steersman_must(steersman_parameter("frames_each", frames))
  call steersman_must(steersman_seed(seed31=seed31))
  call steersman_must(steersman_frame("u", u))                             ! stays 0 at the first start
  dice = modulo(seed31, 2147483646) + 1
  call steersman_must(steersman_state_get("dice", dice))                   ! where a segment goes on from another's end

  do frame = 1, frames
    call advance()
    code = steersman_ask("source", "u", u, "source", source)
    call steersman_must(code)
    if (code == STEERSMAN_OK) u = u + source                               ! there is a model, and this is what it says
    call steersman_must(steersman_append("u", u))
    call steersman_must(steersman_append("hottest", maxloc(u)))
    call steersman_must(steersman_commit(real(frame * steps, real64)))
    call steersman_must(steersman_stopped(stopped))
    if (stopped /= 0) exit
  end do
  call steersman_must(steersman_state_put("dice", dice))
  code = steersman_close()

contains

  subroutine advance()
    real(real64) :: before(nx, ny)
    integer :: step, i, j
    do step = 1, steps
      i = 2 + int(modulo(rolled(), nx - 2_int64)); j = 2 + int(modulo(rolled(), ny - 2_int64))
      u(i, j) = u(i, j) + spark
      before = u
      do j = 2, ny - 1
        do i = 2, nx - 1
          u(i, j) = before(i, j) + 0.125_real64 * ((before(i - 1, j) + before(i + 1, j)) &
            + (before(i, j - 1) + before(i, j + 1)) - 4 * before(i, j))
        end do
      end do
    end do
  end subroutine

  integer(int64) function rolled()
    dice = modulo(16807 * dice, 2147483647_int64)
    rolled = dice
  end function
end program
