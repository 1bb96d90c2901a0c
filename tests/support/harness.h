/*
 * Every test of the project adds this to Criterion.
 *
 * Criterion counts a test whose process calls exit(0) as passed. TEST() expects an exit status that
 * only the end of the test's body returns, so code under test that exits early fails the test. A
 * test that should judge kernels and judged none has not passed either: ladder.c says so.
 */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <criterion/criterion.h>
#include <stdlib.h>

/* Runs at the end of each test. It fails a test that missed kernels it should judge (ladder.c). */
void ladder_ends(const char *test);

enum { TEST_REACHED_ITS_END = 86, TEST_TIMEOUT_SECONDS = 600 };

#define TEST(suite, name)                                                                          \
    static void suite##_##name##_body(void);                                                       \
    Test(suite, name, .exit_code = TEST_REACHED_ITS_END, .timeout = TEST_TIMEOUT_SECONDS)          \
    {                                                                                              \
        suite##_##name##_body();                                                                   \
        ladder_ends(#suite "/" #name);                                                             \
        exit(TEST_REACHED_ITS_END);                                                                \
    }                                                                                              \
    static void suite##_##name##_body(void)

/* Defines a test that is one call. */
#define CALL_TEST(suite, name, ...)                                                                \
    TEST(suite, name)                                                                              \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

/* Defines a test that is empty where a condition does not hold; evaluating the condition prints
 * why. */
#define CONDITIONAL_TEST(suite, name, condition)                                                   \
    static void suite##_##name##_there(void);                                                      \
    CALL_TEST(suite, name, if (condition) suite##_##name##_there())                                \
    static void suite##_##name##_there(void)

#endif
