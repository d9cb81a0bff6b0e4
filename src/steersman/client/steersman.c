/* The client of steersman.h: C99 and POSIX, for Linux. Where ISO_Fortran_binding.h is, it also serves steersman.f90.

   A call is one message to the walker and one answer, on a Unix socket: a head, an item for each array, then the small
   arrays. Large ones lie in memory that both sides share; the program chooses the places. On another node than the
   walker's it is TCP, and no memory is shared. The other side is apps/line.py. */
#define _GNU_SOURCE /* F_SETSIG */
#include "steersman.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC 0x4d525453u /* the first bytes of each message, in the order of this machine */
#define LARGE 65536       /* bytes; larger arrays lie in the shared memory, if there is one */
#define ALIGNED 64

enum { OPEN = 1, CLOSE, SEED, PARAMETER, FRAME, STATE, DRAW, APPEND, COMMIT, STOPPED, KEEP, ASK, PUT, TAKE, READ, ACK, WATCH };

struct head { uint32_t magic, call, given, wanted; uint64_t bytes, area; double a, b; char name[STEERSMAN_NAME]; };
struct item {
  char name[STEERSMAN_NAME];
  uint32_t type, rank;
  int64_t shape[STEERSMAN_DIMENSIONS];
  uint64_t bytes;
  int64_t place; /* in the shared memory, or -1 */
  uint32_t fortran, unused;
};
struct answer { uint32_t magic; int32_t code; uint64_t bytes; };

static int state; /* 0: not open, OK + 3: open, else the code that every call returns */
static int wire = -1, shared = -1;
static char *area, *buffer;
static size_t area_bytes, buffer_bytes;
static char said[2048] = "call steersman_open first";
enum { IS_OPEN = 3 };

static int tell(int code, const char *sentence) {
  snprintf(said, sizeof said, "%s", sentence);
  return code;
}

static int lost(void) {
  if (wire >= 0) close(wire);
  wire = -1;
  return tell(state = STEERSMAN_LOST, "the walker that started this program is gone, or not to be reached from this node");
}

const char *steersman_said(void) { return said; }

void steersman_must(int code) {
  if (code >= 0) return;
  fprintf(stderr, "steersman: %s\n", said);
  exit(1);
}

static int out_of_memory(void) { return tell(STEERSMAN_REFUSED, "there is no memory for what is to be sent"); }

static int room(size_t bytes) {
  if (bytes <= buffer_bytes) return 1;
  char *larger = realloc(buffer, bytes);
  if (!larger) return 0;
  buffer = larger, buffer_bytes = bytes;
  return 1;
}

static int area_room(size_t bytes) {
  if (bytes <= area_bytes) return 1;
  bytes += bytes / 2;
  if (posix_fallocate(shared, 0, (off_t)bytes)) return 0;
  void *larger = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  if (larger == MAP_FAILED) return 0;
  if (area) munmap(area, area_bytes);
  area = larger, area_bytes = bytes;
  return 1;
}

static int is_large(size_t bytes) { return shared >= 0 && bytes > LARGE; }

static int all(int file, int sends, void *from, size_t bytes) {
  char *data = from;
  while (bytes) {
    ssize_t n = sends ? send(file, data, bytes, MSG_NOSIGNAL) : recv(file, data, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return 0;
    data += n, bytes -= (size_t)n;
  }
  return 1;
}

/* The first answer, with which two files come: the shared memory, and a pipe that ends with the walker. */
static int receive_first(struct answer *first, int files[2]) {
  union { struct cmsghdr align; char bytes[CMSG_SPACE(2 * sizeof(int))]; } control;
  struct iovec part = {first, sizeof *first};
  struct msghdr message = {0};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control.bytes, message.msg_controllen = sizeof control.bytes;
  ssize_t n;
  do n = recvmsg(wire, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  while (n < 0 && errno == EINTR);
  struct cmsghdr *with = CMSG_FIRSTHDR(&message);
  if (with && with->cmsg_type == SCM_RIGHTS && with->cmsg_len == CMSG_LEN(2 * sizeof(int)))
    memcpy(files, CMSG_DATA(with), 2 * sizeof(int));
  return n == (ssize_t)sizeof *first;
}

static size_t bytes_of(const steersman_array *array) {
  static const int sizes[] = {0, 4, 8, 1, 2, 4, 8, 1, 1};
  size_t bytes = (size_t)(array->size ? array->size : sizes[array->type]);
  for (int i = 0; i < array->rank; i++) bytes *= (size_t)array->shape[i];
  return bytes;
}

static int sound(const steersman_array *arrays, int n) {
  for (int i = 0; i < n; i++) {
    const steersman_array *each = arrays + i;
    int fits = memchr(each->name, 0, STEERSMAN_NAME) && each->type >= STEERSMAN_REAL32 && each->type <= STEERSMAN_TEXT;
    fits = fits && each->rank >= 0 && each->rank <= STEERSMAN_DIMENSIONS;
    for (int k = 0; fits && k < each->rank; k++) fits = each->shape[k] >= 0;
    if (!fits || (!each->data && bytes_of(each))) return 0;
  }
  return 1;
}

/* Say it, wait for the answer, and put what it brings into the arrays that are wanted. */
static int call(int what, const char *name, double a, double b, const steersman_array *given, int n_given,
                const steersman_array *wanted, int n_wanted) {
  struct head head = {MAGIC, (uint32_t)what, (uint32_t)n_given, (uint32_t)n_wanted, 0, 0, a, b, ""};
  struct answer answer = {0, 0, 0};
  if (state != IS_OPEN) {
    if (state == STEERSMAN_ALONE) return tell(state, "no walker started this program: it runs alone");
    if (state == 0) return tell(STEERSMAN_REFUSED, "call steersman_open first; under MPI only rank 0 calls");
    return state;
  }
  if (strlen(name) >= STEERSMAN_NAME || n_given < 0 || n_wanted < 0 || !sound(given, n_given) ||
      !sound(wanted, n_wanted))
    return tell(STEERSMAN_REFUSED, "an array has no type, data, name of up to 63 bytes, or shape of up to 7 dimensions");
  strcpy(head.name, name);
  int n = n_given + n_wanted;
  size_t items = (size_t)n * sizeof(struct item), large = 0, small = sizeof head + items;
  for (int i = 0; i < n; i++) {
    size_t bytes = bytes_of(i < n_given ? given + i : wanted + i - n_given);
    if (is_large(bytes)) large += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    else if (i < n_given) small += bytes;
  }
  if (!room(small) || !area_room(large)) return out_of_memory();
  size_t place = 0, end = sizeof head + items;
  for (int i = 0; i < n; i++) {
    const steersman_array *array = i < n_given ? given + i : wanted + i - n_given;
    struct item item = {"", (uint32_t)array->type, (uint32_t)array->rank, {0}, bytes_of(array), -1,
                        (uint32_t)array->fortran, 0};
    memcpy(item.name, array->name, STEERSMAN_NAME);
    memcpy(item.shape, array->shape, sizeof item.shape);
    if (is_large(item.bytes)) {
      item.place = (int64_t)place, place += (item.bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
      if (i < n_given) memcpy(area + item.place, array->data, item.bytes);
    } else if (i < n_given && item.bytes) {
      memcpy(buffer + end, array->data, item.bytes), end += item.bytes;
    }
    memcpy(buffer + sizeof head + (size_t)i * sizeof item, &item, sizeof item);
  }
  head.bytes = end - sizeof head, head.area = area_bytes;
  memcpy(buffer, &head, sizeof head);
  if (!all(wire, 1, buffer, end) || !all(wire, 0, &answer, sizeof answer) || answer.magic != MAGIC) return lost();
  if (!room(answer.bytes + 1)) return out_of_memory(), lost();
  if (!all(wire, 0, buffer, answer.bytes)) return lost();
  buffer[answer.bytes] = 0;
  if (answer.code != STEERSMAN_OK) return tell(answer.code, buffer);
  end = place = 0;
  for (int i = 0; i < n; i++) {
    size_t bytes = bytes_of(i < n_given ? given + i : wanted + i - n_given);
    if (i >= n_given && bytes && !is_large(bytes))
      memcpy(wanted[i - n_given].data, buffer + end, bytes), end += bytes;
    if (i >= n_given && is_large(bytes)) memcpy(wanted[i - n_given].data, area + place, bytes);
    if (is_large(bytes)) place += (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
  }
  return tell(STEERSMAN_OK, "done");
}

static int near(const char *path) {
  struct sockaddr_un address = {0};
  int file = path && strlen(path) < sizeof address.sun_path ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  if (file < 0) return -1;
  address.sun_family = AF_UNIX, strcpy(address.sun_path, path);
  if (!connect(file, (struct sockaddr *)&address, sizeof address)) return file;
  return close(file), -1;
}

/* From another node, where the path leads nowhere: "10.0.0.5:40123". */
static int far(const char *where) {
  struct sockaddr_in address = {0};
  char host[16];
  unsigned short port;
  int one = 1, idle_s = 60;
  if (!where || sscanf(where, "%15[0-9.]:%hu", host, &port) != 2 || !inet_aton(host, &address.sin_addr)) return -1;
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return -1;
  address.sin_family = AF_INET, address.sin_port = htons(port);
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one); /* a node that dies says nothing */
  setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  if (!connect(file, (struct sockaddr *)&address, sizeof address)) return file;
  return close(file), -1;
}

int steersman_open(void) {
  const char *path = getenv("STEERSMAN_SOCKET"), *where = getenv("STEERSMAN_ADDRESS");
  const char *token = getenv("STEERSMAN_TOKEN");
  struct head head = {MAGIC, OPEN, 0, 0, 0, 0, STEERSMAN_MAJOR, STEERSMAN_MINOR, ""};
  struct answer answer = {0, 0, 0};
  int files[2] = {-1, -1};
  if (state == IS_OPEN) return tell(STEERSMAN_REFUSED, "it is open already");
  if (!token || (!path && !where)) return tell(state = STEERSMAN_ALONE, "no walker started this program: it runs alone");
  if (strlen(token) >= STEERSMAN_NAME) return tell(STEERSMAN_REFUSED, "STEERSMAN_TOKEN is none that a walker gave");
  strcpy(head.name, token);
  int is_near = (wire = near(path)) >= 0;
  if (!is_near && (wire = far(where)) < 0) return lost();
  if (!all(wire, 1, &head, sizeof head)) return lost();
  if (!(is_near ? receive_first(&answer, files) : all(wire, 0, &answer, sizeof answer)) || answer.magic != MAGIC)
    return lost();
  if (!room(answer.bytes + 1) || !all(wire, 0, buffer, answer.bytes)) return lost();
  buffer[answer.bytes] = 0;
  if (answer.code != STEERSMAN_OK) {
    close(wire), wire = -1;
    return tell(answer.code, buffer);
  }
  if (!is_near) { /* what takes the place of the pipe: nothing comes on it any more after the answer */
    head.call = WATCH, files[1] = far(where);
    if (files[1] < 0 || !all(files[1], 1, &head, sizeof head) || !all(files[1], 0, &answer, sizeof answer) ||
        answer.code != STEERSMAN_OK)
      return lost();
  }
  /* A walker that dies ends this program: the pipe has no writer any more, and the kernel sends TERM. */
  fcntl(files[1], F_SETOWN, getpid()), fcntl(files[1], F_SETSIG, SIGTERM);
  fcntl(files[1], F_SETFL, fcntl(files[1], F_GETFL) | O_ASYNC);
  shared = files[0], state = IS_OPEN;
  return tell(STEERSMAN_OK, buffer);
}

int steersman_close(void) {
  int code = call(CLOSE, "", 0, 0, NULL, 0, NULL, 0);
  if (code != STEERSMAN_OK) return code;
  close(wire);
  if (shared >= 0) close(shared); /* the pipe stays: what is left to do ends with the walker, too */
  if (area) munmap(area, area_bytes);
  free(buffer);
  wire = shared = -1, area = buffer = NULL, area_bytes = buffer_bytes = 0, state = 0;
  return tell(STEERSMAN_OK, "closed");
}

int steersman_parameter(steersman_array into) { return call(PARAMETER, "", 0, 0, NULL, 0, &into, 1); }
int steersman_frame(steersman_array into) { return call(FRAME, "", 0, 0, NULL, 0, &into, 1); }
int steersman_state_get(steersman_array into) { return call(STATE, "", 0, 0, NULL, 0, &into, 1); }
int steersman_draw(steersman_array into) { return call(DRAW, "", 0, 0, NULL, 0, &into, 1); }
int steersman_append(steersman_array of) { return call(APPEND, "", 0, 0, &of, 1, NULL, 0); }
int steersman_state_put(steersman_array of) { return call(KEEP, "", 0, 0, &of, 1, NULL, 0); }
int steersman_commit(double time) { return call(COMMIT, "", time, 0, NULL, 0, NULL, 0); }
int steersman_ack(const char *name) { return call(ACK, name, 0, 0, NULL, 0, NULL, 0); }

int steersman_seed(int64_t *seed, int32_t *seed31) {
  int64_t both[2] = {0, 0};
  steersman_array into = {"seed", STEERSMAN_INT64, both, 1, {2}, 0, 0};
  int code = call(SEED, "", 0, 0, NULL, 0, &into, 1);
  if (code == STEERSMAN_OK && seed) *seed = both[0];
  if (code == STEERSMAN_OK && seed31) *seed31 = (int32_t)both[1];
  return code;
}

int steersman_stopped(int *stopped) {
  int32_t is = 0;
  steersman_array into = {"stopped", STEERSMAN_INT32, &is, 0, {0}, 0, 0};
  int code = call(STOPPED, "", 0, 0, NULL, 0, &into, 1);
  *stopped = is || code < 0;
  return code;
}

int steersman_ask(const char *name, const steersman_array *inputs, int n_in, const steersman_array *outputs, int n_out) {
  return call(ASK, name, 0, 0, inputs, n_in, outputs, n_out);
}

int steersman_put(const char *name, const steersman_array *fields, int n) {
  return call(PUT, name, 0, 0, fields, n, NULL, 0);
}

int steersman_take(const char *name, const steersman_array *fields, int n, double timeout_s, double lease_s) {
  return call(TAKE, name, timeout_s, lease_s, NULL, 0, fields, n);
}

int steersman_read(const char *name, const steersman_array *fields, int n, double timeout_s) {
  return call(READ, name, timeout_s, 0, NULL, 0, fields, n);
}

/* -- Fortran: the compiler hands each array over with its type and its shape, so that nobody has to say them. */
#ifdef __has_include
#if __has_include(<ISO_Fortran_binding.h>)
#include <ISO_Fortran_binding.h>

static int type_of(const CFI_cdesc_t *array) {
  CFI_type_t type = array->type;
  if (type == CFI_type_double) return STEERSMAN_REAL64;
  if (type == CFI_type_float) return STEERSMAN_REAL32;
  if (type == CFI_type_int32_t) return STEERSMAN_INT32;
  if (type == CFI_type_int64_t) return STEERSMAN_INT64;
  if (type == CFI_type_int8_t) return STEERSMAN_INT8;
  if (type == CFI_type_int16_t) return STEERSMAN_INT16;
  if (type == CFI_type_Bool) return STEERSMAN_LOGICAL;
  if (type == CFI_type_char) return STEERSMAN_TEXT;
#ifdef CFI_type_Logical
  if ((type & CFI_type_mask) == CFI_type_Logical) return STEERSMAN_LOGICAL; /* of any kind, in GNU Fortran */
#endif
  return 0;
}

static int named(char *name, const CFI_cdesc_t *text) {
  size_t n = text->elem_len;
  const char *letters = text->base_addr;
  while (n && letters[n - 1] == ' ') n--;
  memset(name, 0, STEERSMAN_NAME);
  if (n >= STEERSMAN_NAME) return 0;
  memcpy(name, letters, n);
  return 1;
}

static int of_fortran(steersman_array *into, const CFI_cdesc_t *name, const CFI_cdesc_t *array) {
  memset(into, 0, sizeof *into);
  int fits = (!name || named(into->name, name)) && array->rank <= STEERSMAN_DIMENSIONS;
  into->type = type_of(array), into->data = array->base_addr, into->fortran = 1;
  into->rank = array->rank, into->size = (int)array->elem_len;
  CFI_index_t step = (CFI_index_t)array->elem_len;
  for (int i = 0; fits && i < array->rank; i++) {
    into->shape[i] = array->dim[i].extent;
    fits = array->dim[i].sm == step || array->dim[i].extent <= 1;
    step *= array->dim[i].extent;
  }
  if (into->type == STEERSMAN_TEXT) {
    fits = fits && array->rank == 0;
    into->rank = 1, into->shape[0] = (int64_t)array->elem_len, into->size = 1;
  }
  return fits && into->type;
}

static int odd(const CFI_cdesc_t *name) {
  char text[STEERSMAN_NAME];
  snprintf(said, sizeof said, "%s: it is to be a contiguous array of real32, real64, int8 to int64 or logical, of up to "
           "7 dimensions, or one text, and its name of up to 63 letters", name && named(text, name) ? text : "an array");
  return STEERSMAN_REFUSED;
}

#define OF_ONE(call) \
  int f_##call(const CFI_cdesc_t *name, const CFI_cdesc_t *data) { \
    steersman_array array; \
    return of_fortran(&array, name, data) ? call(array) : odd(name); \
  }
OF_ONE(steersman_parameter)
OF_ONE(steersman_frame)
OF_ONE(steersman_state_get)
OF_ONE(steersman_draw)
OF_ONE(steersman_append)
OF_ONE(steersman_state_put)

/* Arrays of which any but the first may be left out; returns how many there are, or -1. */
static int several(steersman_array *into, int n, const CFI_cdesc_t *const *names, const CFI_cdesc_t *const *data) {
  int m = 0;
  for (int i = 0; i < n; i++)
    if (data[i] && !of_fortran(into + m++, names ? names[i] : NULL, data[i])) return -1;
  return m;
}

typedef const CFI_cdesc_t *given;

int f_steersman_ask(given name, given in1, given x1, given out1, given y1, given in2, given x2, given in3, given x3,
                    given out2, given y2, given out3, given y3) {
  steersman_array inputs[3], outputs[3];
  given ins[] = {in1, in2, in3}, xs[] = {x1, x2, x3}, outs[] = {out1, out2, out3}, ys[] = {y1, y2, y3};
  char text[STEERSMAN_NAME];
  int n = several(inputs, 3, ins, xs), m = several(outputs, 3, outs, ys);
  return n < 0 || m < 0 || !named(text, name) ? odd(name) : steersman_ask(text, inputs, n, outputs, m);
}

#define OF_FIELDS(call, arguments, ...) \
  int f_##call(given name, given a, given b, given c, given d arguments) { \
    steersman_array fields[4]; \
    given all_of[] = {a, b, c, d}; \
    char text[STEERSMAN_NAME]; \
    int n = several(fields, 4, NULL, all_of); \
    return n < 0 || !named(text, name) ? odd(name) : call(text, fields, n __VA_ARGS__); \
  }
#define WITH ,
OF_FIELDS(steersman_put, , )
OF_FIELDS(steersman_take, WITH const double *timeout_s WITH const double *lease_s, , *timeout_s, lease_s ? *lease_s : 0)
OF_FIELDS(steersman_read, WITH const double *timeout_s, , *timeout_s)

int f_steersman_ack(given name) {
  char text[STEERSMAN_NAME];
  return named(text, name) ? steersman_ack(text) : odd(name);
}

void f_steersman_said(const CFI_cdesc_t *text) {
  size_t n = strlen(said) < text->elem_len ? strlen(said) : text->elem_len;
  memset(text->base_addr, ' ', text->elem_len);
  memcpy(text->base_addr, said, n);
}
#endif
#endif
