// State vectors on CPUs: readouts of a circuit for bundles of samples, and their gradient by the adjoint method
// (Jones and Gacon, arXiv:2009.02823).
//
// XLA calls the functions at the end of this file as custom calls (API version STATUS_RETURNING_UNIFIED,
// xla/service/custom_call_status.h). `encoding.py` writes the programs that they run, in the order of the structures
// below.

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#include <sys/mman.h>
#endif

// Maximum numbers of qubits of a gate or observable, and of a tile.
#define MAX_QUBITS 4
#define MAX_SIZE (1 << MAX_QUBITS)
#define MAX_TILE 8
// Rows below which an operation is not divided into parts.
#define MIN_SHARED_ROWS 4096

#include "program.inc"
#include "threads.inc"
#include "memory.inc"
#include "matrices.inc"

#define REAL float
#define LANES 8
#define NAME(identifier) identifier##_float
#include "evolution.inc"
#undef REAL
#undef LANES
#undef NAME

#define REAL double
#define LANES 4
#define NAME(identifier) identifier##_double
#include "evolution.inc"

// Whether the processor has the instructions that this file was compiled for.
int qcnn_supports_processor(void) {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return 1;
#endif
}

// Parts of the operations on a bundle that threads share: of one state, and of a bundle that no thread has alone.
#define PARTS 32
#define PARTS_OF_BUNDLE 4

typedef struct {
  const call *of;
  void (*run)(const call *, size_t);
} bundle_work;

static void run_bundle(void *argument, size_t bundle) {
  const bundle_work *work = argument;
  work->run(work->of, bundle);
}

// Run the bundles: the same number on every thread, and then those that remain on all threads together.
static void run_call(const call *of, void (*run)(const call *, size_t)) {
  size_t alone = of->parts == 1 ? of->bundles : of->share_bundles ? 0 : of->bundles / of->threads * of->threads;
  bundle_work work = {of, run};
  share_work(of->threads, alone, run_bundle, &work);
  call together = *of;
  together.threads_of_bundle = of->threads;
  for (size_t bundle = alone; bundle < of->bundles; bundle++) run(&together, bundle);
}

static call read_call(const void **in) {
  const int32_t *counts = in[2];
  call of = {.program = read_program(in[0], in[1]), .bundles = counts[0], .threads = available_cores(),
             .share_bundles = counts[2], .threads_of_bundle = 1, .parts = 1, .parameters = in[3], .leaves = in[4]};
  if (of.threads > (size_t)counts[1]) of.threads = counts[1];
  if (of.share_bundles)
    of.parts = PARTS;
  else if (of.program.state_rows >= MIN_SHARED_ROWS)
    of.parts = PARTS_OF_BUNDLE;
  of.matrices = take_memory(of.program.numbers * sizeof(element));
  compute_matrices(&of.program, of.parameters, of.matrices);
  return of;
}

// Kept states begin at the first aligned byte after their offset. XLA may copy them to memory of another alignment.
enum { ALIGNMENT = 64 };

static void *place_states(void *memory) {
  uint64_t offset = ALIGNMENT - (uintptr_t)memory % ALIGNMENT;
  if (offset < sizeof offset) offset += ALIGNMENT;
  memcpy(memory, &offset, sizeof offset);
  return (char *)memory + offset;
}

static void *find_states(const void *memory) {
  uint64_t offset;
  memcpy(&offset, memory, sizeof offset);
  return (char *)memory + offset;
}

// Operands: integers and constants of the program, numbers of bundles and threads and whether the threads share
// bundles, parameters, leaves. Results: values of the readouts, float64, and the states if they are kept. A single
// result is not in a list.
static void forward_call(void *out, const void **in, int keep, void (*run)(const call *, size_t)) {
  call of = read_call(in);
  of.values = keep ? ((void **)out)[0] : out;
  of.states = keep ? place_states(((void **)out)[1]) : NULL;
  run_call(&of, run);
  give_back_memory(of.matrices);
}

// Further operands: gradient of the values, float64, and the states if they were kept. Result: gradient of the
// parameters, float64.
static void backward_call(void *out, const void **in, int keep, int is_single, void (*run)(const call *, size_t)) {
  call of = read_call(in);
  size_t numbers = of.program.numbers;
  of.scales = take_memory(of.program.operations * sizeof(double));
  set_scales(&of.program, of.matrices, is_single, of.scales);
  of.upstream = in[5];
  of.states = keep ? find_states(in[6]) : NULL;
  of.sums = take_memory((of.bundles + 1) * numbers * sizeof(element));
  run_call(&of, run);
  // In the order of the bundles, so that the result does not depend on the threads.
  element *total = of.sums + of.bundles * numbers;
  memset(total, 0, numbers * sizeof(element));
  for (size_t bundle = 0; bundle < of.bundles; bundle++)
    for (size_t number = 0; number < numbers; number++) total[number] += of.sums[bundle * numbers + number];
  differentiate_matrices(&of.program, of.parameters, of.matrices, total, out);
  give_back_memory(of.sums);
  give_back_memory(of.scales);
  give_back_memory(of.matrices);
}

#define CUSTOM_CALLS(type)                                                                                       \
  void qcnn_forward_##type(void *out, const void **in, const char *opaque, size_t size, void *status) {          \
    (void)size;                                                                                                  \
    (void)status;                                                                                                \
    forward_call(out, in, opaque[0] == 'k', forward_bundle_##type);                                              \
  }                                                                                                              \
  void qcnn_backward_##type(void *out, const void **in, const char *opaque, size_t size, void *status) {         \
    (void)size;                                                                                                  \
    (void)status;                                                                                                \
    backward_call(out, in, opaque[0] == 'k', sizeof(type) == sizeof(float), backward_bundle_##type);             \
  }

CUSTOM_CALLS(float)
CUSTOM_CALLS(double)
