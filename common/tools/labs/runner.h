/*
 * The graded program has a student's kernels and this file. It turns the inputs of a request into
 * the outputs of an answer (case.h) and can do nothing else. workshop.py writes a main() for each
 * step:
 *
 *     return runner_main(&step_03);
 *
 * and compiles the step's rows with problems that know only how a row is called. The problems
 * themselves, with their references, are no part of this program.
 */
#ifndef LABS_RUNNER_H
#define LABS_RUNNER_H

#include "harness/ladder.h"

extern const struct problem lab_matmul, lab_softmax, lab_attention, lab_attention_backward;

int runner_main(const struct step *step);

#endif
