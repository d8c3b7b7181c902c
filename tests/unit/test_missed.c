/* Runs of BPF programs that the kernel left out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf/missed.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recursing.skel.h"
#include "test.h"

enum { PAGE = 4096, TIMES = 3 };

/* The process's number as the kernel counts, which is ours unless we are in a namespace. */
static struct recursing_bpf *load(const void *nowhere)
{
    struct recursing_bpf *bpf = recursing_bpf__open();
    assert_non_null(bpf);
    bpf->rodata->process = (uint32_t)getpid();
    bpf->rodata->nowhere = (uint64_t)(uintptr_t)nowhere;
    if (recursing_bpf__load(bpf) == 0 && recursing_bpf__attach(bpf) == 0)
        return bpf;
    recursing_bpf__destroy(bpf);
    return NULL;
}

static bool in_namespace(void)
{
    enum { FIRST_NAMESPACE = 0xEFFFFFFC };
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != FIRST_NAMESPACE;
}

static void a_run_within_a_run_is_counted(void **state)
{
    (void)state;
    void *nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *fresh = mmap(NULL, TIMES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(nowhere != MAP_FAILED && fresh != MAP_FAILED);
    libbpf_set_print(NULL);
    struct recursing_bpf *bpf = in_namespace() ? NULL : load(nowhere);
    if (!bpf) {
        print_message("skipped: no such eBPF program can be loaded here\n");
        skip();
    }
    assert_int_equal(bpf_missed_runs(bpf->obj), 0);
    for (int i = 0; i < TIMES; i++) /* the kernel writes where no page is yet */
        assert_int_equal(getrandom(fresh + i * PAGE, 1, 0), 1);
    assert_true(bpf_missed_runs(bpf->obj) >= TIMES);
    recursing_bpf__destroy(bpf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_run_within_a_run_is_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
