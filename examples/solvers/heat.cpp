// The plate of heat.f90 in C++; compiled with -DWITH_MPI its rows are shared among ranks, and rank 0 alone calls Steersman.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "steersman.h"
#ifdef WITH_MPI
#include <mpi.h>
#endif

const int NX = 12, NY = 16, STEPS = 10;
int rank = 0, ranks = 1;

void from_first(void *data, int bytes) {  // the others follow rank 0
#ifdef WITH_MPI
  MPI_Bcast(data, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
#else
  (void)data, (void)bytes;
#endif
}

void share_rows(std::vector<double> &u) {  // every rank gets the rows of all
#ifdef WITH_MPI
  for (int r = 0; r < ranks; r++) {
    int first = NX * r / ranks, end = NX * (r + 1) / ranks;
    MPI_Bcast(&u[first * NY], (end - first) * NY, MPI_DOUBLE, r, MPI_COMM_WORLD);
  }
#else
  (void)u;
#endif
}

int main(int argc, char **argv) {
#ifdef WITH_MPI
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
#endif
  (void)argc, (void)argv;
  const bool calls = rank == 0;
  std::vector<double> u(NX * NY, 0.0), source(NX * NY, 0.0), before;
  steersman_array plate = {"u", STEERSMAN_REAL64, u.data(), 2, {NX, NY}};  // u[i * NY + j]: the last index runs fastest
  steersman_array said = {"source", STEERSMAN_REAL64, source.data(), 2, {NX, NY}};
  struct { double spark; int64_t dice; int32_t frames, seed31, stopped, answered; } s = {1, 0, 20, 1, 0, 0};
  if (calls) {
    steersman_must(steersman_open());
    steersman_must(steersman_parameter({"spark", STEERSMAN_REAL64, &s.spark}));
    steersman_must(steersman_parameter({"frames_each", STEERSMAN_INT32, &s.frames}));
    steersman_must(steersman_seed(nullptr, &s.seed31));
    steersman_must(steersman_frame(plate));
    s.dice = s.seed31 % 2147483646 + 1;
    steersman_must(steersman_state_get({"dice", STEERSMAN_INT64, &s.dice}));
  }
  from_first(&s, sizeof s), from_first(u.data(), 8 * NX * NY);
  auto rolled = [&s] { return s.dice = 16807 * s.dice % 2147483647; };
  const int first = std::max(1, NX * rank / ranks), end = std::min(NX - 1, NX * (rank + 1) / ranks);
  for (int frame = 1; frame <= s.frames && !s.stopped; frame++) {
    for (int step = 0; step < STEPS; step++) {
      int i = 1 + rolled() % (NX - 2), j = 1 + rolled() % (NY - 2);
      u[i * NY + j] += s.spark;
      before = u;
      for (i = first; i < end; i++)
        for (j = 1; j < NY - 1; j++) {
          const double *b = &before[i * NY + j];
          u[i * NY + j] = b[0] + 0.125 * ((b[-NY] + b[NY]) + (b[-1] + b[1]) - 4 * b[0]);
        }
      share_rows(u);
    }
    if (calls) {
      int code = steersman_ask("source", &plate, 1, &said, 1);
      steersman_must(code);
      if (code == STEERSMAN_OK)
        for (int k = 0; k < NX * NY; k++) u[k] += source[k];
      int64_t at = std::max_element(u.begin(), u.end()) - u.begin();
      int32_t hottest[] = {int32_t(at / NY + 1), int32_t(at % NY + 1)};
      steersman_must(steersman_append(plate));
      steersman_must(steersman_append({"hottest", STEERSMAN_INT32, hottest, 1, {2}}));
      steersman_must(steersman_commit(frame * STEPS));
      steersman_must(steersman_stopped(&s.stopped));
    }
    from_first(&s, sizeof s), from_first(u.data(), 8 * NX * NY);
  }
  if (calls) {
    steersman_must(steersman_state_put({"dice", STEERSMAN_INT64, &s.dice}));
    steersman_close();
  }
#ifdef WITH_MPI
  MPI_Finalize();
#endif
}
