// State vectors on CPUs: readouts of a circuit for bundles of samples, and their gradient by the adjoint method
// (Jones and Gacon, arXiv:2009.02823).
//
// `encoding.py` writes the programs that the entries at the end of this file run, in the order of the structures below.
// The entries depend on nothing but the C library. XLA calls them through the handlers in `handlers.inc`.

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
// Bytes of the real or imaginary parts of a row.
#define VECTOR_BYTES 32
// Rows below which an operation is not divided into parts.
#define MIN_SHARED_ROWS 4096

#include "threads.inc"
#include "memory.inc"
#include "program.inc"
#include "matrices.inc"
#include "processor.inc"

#define REAL float
#define LANES (VECTOR_BYTES / 4)
#define NAME(identifier) identifier##_float
#include "evolution.inc"
#undef REAL
#undef LANES
#undef NAME

#define REAL double
#define LANES (VECTOR_BYTES / 8)
#define NAME(identifier) identifier##_double
#include "evolution.inc"

// Whether the processor has the instructions that this file was compiled for.
int qcnn_supports_processor(void) {
#ifdef __x86_64__
  return processor_has_avx2();
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

// Compute the matrices of a call. Return whether there is enough memory.
static int start_call(call *of) {
  size_t cores = available_cores();
  if (of->threads > cores) of->threads = cores;
  of->threads_of_bundle = of->parts = 1;
  if (of->share_bundles)
    of->parts = PARTS;
  else if (of->program.state_rows >= MIN_SHARED_ROWS)
    of->parts = PARTS_OF_BUNDLE;
  of->matrices = take_memory(of->program.numbers * sizeof(element));
  return of->matrices && compute_matrices(&of->program, of->parameters, of->matrices);
}

static int run_forward(call of, void (*run)(const call *, size_t)) {
  int lacks_memory = 0;
  of.lacks_memory = &lacks_memory;
  if (start_call(&of))
    run_call(&of, run);
  else
    lacks_memory = 1;
  give_back_memory(of.matrices);
  return lacks_memory;
}

static int run_backward(call of, double *gradient, int is_single, void (*run)(const call *, size_t)) {
  size_t numbers = of.program.numbers;
  int lacks_memory = 0;
  of.lacks_memory = &lacks_memory;
  int is_started = start_call(&of);
  of.scales = take_memory(of.program.operations * sizeof(double));
  of.sums = take_memory((of.bundles + 1) * numbers * sizeof(element));
  if (is_started && of.scales && of.sums && set_scales(&of.program, of.matrices, is_single, of.scales)) {
    run_call(&of, run);
    // In the order of the bundles, so that the result does not depend on the threads.
    element *total = of.sums + of.bundles * numbers;
    memset(total, 0, numbers * sizeof(element));
    if (!lacks_memory)
      for (size_t bundle = 0; bundle < of.bundles; bundle++)
        for (size_t number = 0; number < numbers; number++) total[number] += of.sums[bundle * numbers + number];
    lacks_memory |= !differentiate_matrices(&of.program, of.parameters, of.matrices, total, gradient);
  } else {
    lacks_memory = 1;
  }
  give_back_memory(of.sums);
  give_back_memory(of.scales);
  give_back_memory(of.matrices);
  return lacks_memory;
}

// Entries, which return 0, or 1 if there is not enough memory:
//   qcnn_forward_float, qcnn_forward_double: set the values of the readouts (bundles, values, lanes), and the kept
//     states unless they are NULL.
//   qcnn_backward_float, qcnn_backward_double: set the gradient of the parameters from the gradient of the values,
//     `upstream`, and that of the input states unless it is NULL, which a program with input blocks needs. Without kept
//     states, the states are evolved again.
// `encoding.py` writes `integers` and `constants`. There are 1 to MAX_THREADS threads, which share every bundle if
// `share_bundles` is not 0. `leaves` are the input states (bundles, rows of the input, 2, lanes).
#define CALL(...)                                                                                                  \
  {.program = read_program(integers, constants), .bundles = bundles, .threads = threads,                           \
   .share_bundles = share_bundles, .parameters = parameters, .leaves = leaves, __VA_ARGS__}

#define ENTRIES(type)                                                                                              \
  int qcnn_forward_##type(const int32_t *integers, const double *constants, size_t bundles, size_t threads,        \
                          int share_bundles, const double *parameters, const type *leaves, double *values,         \
                          type *kept) {                                                                            \
    call of = CALL(.values = values, .states = kept ? place_states(kept) : NULL);                                  \
    return run_forward(of, forward_bundle_##type);                                                                 \
  }                                                                                                                \
  int qcnn_backward_##type(const int32_t *integers, const double *constants, size_t bundles, size_t threads,       \
                           int share_bundles, const double *parameters, const type *leaves,                        \
                           const double *upstream, const type *kept, double *gradient, type *leaf_gradient) {      \
    call of = CALL(.upstream = upstream, .states = kept ? find_states(kept) : NULL,                                \
                   .leaf_gradient = leaf_gradient);                                                                \
    return run_backward(of, gradient, sizeof(type) == sizeof(float), backward_bundle_##type);                      \
  }

ENTRIES(float)
ENTRIES(double)

#include "handlers.inc"
