/* A simulation in C or C++ talks to the walker of Steersman that started it. docs/solvers.md explains it.

   Every call returns a code; steersman_said() is the sentence to it. A code below 0 is an error, one above 0 is not:
   the same program also runs alone, and then every call returns STEERSMAN_ALONE and does nothing.
   One call at a time: guard them where there are threads. Under MPI only rank 0 calls. */
#ifndef STEERSMAN_H
#define STEERSMAN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STEERSMAN_MAJOR 1 /* a walker of another major version refuses this client */
#define STEERSMAN_MINOR 0
#define STEERSMAN_DIMENSIONS 7 /* most of an array */
#define STEERSMAN_NAME 64      /* most bytes of a name, with the zero behind it */

enum {
  STEERSMAN_OK = 0,
  STEERSMAN_ALONE = 1,    /* no walker started this program */
  STEERSMAN_NONE = 2,     /* there is none: no frame at the prepared start, no model yet, no tuple in time */
  STEERSMAN_REFUSED = -1, /* a wrong name, shape or type; nothing was changed */
  STEERSMAN_LOST = -2,    /* the walker is gone */
  STEERSMAN_VERSION = -3  /* client and walker have different major versions */
};

enum {
  STEERSMAN_REAL32 = 1, STEERSMAN_REAL64, STEERSMAN_INT8, STEERSMAN_INT16, STEERSMAN_INT32, STEERSMAN_INT64,
  STEERSMAN_LOGICAL, STEERSMAN_TEXT /* UTF-8, of one dimension */
};

/* An array that the program holds: {"u", STEERSMAN_REAL64, u, 2, {ny, nx}}; of rank 0 it is one value. */
typedef struct {
  char name[STEERSMAN_NAME];
  int type;
  void *data;
  int rank;
  int64_t shape[STEERSMAN_DIMENSIONS];
  int fortran; /* 1: the first index runs fastest; 0: the last */
  int size;    /* bytes of an element; 0: what its type takes */
} steersman_array;

int steersman_open(void);
int steersman_close(void);
const char *steersman_said(void);
void steersman_must(int code); /* below 0: print the sentence to stderr and exit(1) */

/* The start, into `data`; the shape and the type must be those that it has. */
int steersman_parameter(steersman_array into);
int steersman_frame(steersman_array into); /* NONE at the prepared start */
int steersman_state_get(steersman_array into); /* NONE where the frame's segment left no state */
int steersman_draw(steersman_array into); /* NONE where no policy drew */
int steersman_seed(int64_t *seed, int32_t *seed31); /* 63 bits and 31 bits; either may be NULL */

/* A frame: its arrays, then the simulated time since the start. When commit returns OK, it is kept. */
int steersman_append(steersman_array of);
int steersman_commit(double time);
int steersman_stopped(int *stopped); /* 1: write your state now, and end */
int steersman_state_put(steersman_array of); /* beside the last frame: what else continues it exactly */

/* What the function `name` of the workflow file says with the model of this start. NONE: there is no model yet. */
int steersman_ask(const char *name, const steersman_array *inputs, int n_in, const steersman_array *outputs, int n_out);

/* Tuples of the run: a name, then fields by their order. take and read wait; NONE: there was none in time.
   lease_s > 0: without steersman_ack(name) in that time the tuple is offered again. */
int steersman_put(const char *name, const steersman_array *fields, int n);
int steersman_take(const char *name, const steersman_array *fields, int n, double timeout_s, double lease_s);
int steersman_read(const char *name, const steersman_array *fields, int n, double timeout_s);
int steersman_ack(const char *name);

#ifdef __cplusplus
}
#endif
#endif
