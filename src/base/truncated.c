/* See truncated.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/truncated.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_uint_fast64_t pages;
static uintptr_t page_bytes;

static void put_zeros(int signal_number, siginfo_t *info, void *context)
{
    int error = errno;
    void *page = (void *)((uintptr_t)info->si_addr & ~(page_bytes - 1));
    if (info->si_code == BUS_ADRERR && mmap(page, page_bytes, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page)
        atomic_fetch_add_explicit(&pages, 1, memory_order_relaxed);
    else
        signal(signal_number, SIG_DFL); /* it comes again, and ends us */
    errno = error;
}

void truncated_expect(void)
{
    struct sigaction action = {.sa_sigaction = put_zeros, .sa_flags = SA_SIGINFO | SA_RESTART};
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigaction(SIGBUS, &action, NULL);
}

uint64_t truncated_pages(void)
{
    return atomic_load_explicit(&pages, memory_order_relaxed);
}
