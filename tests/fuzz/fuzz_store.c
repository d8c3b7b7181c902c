/* A store of profiles, whatever lies in its folder: windows that are added while the clock jumps, files of
 * any name and content between them, damage, tidying at any time. Nothing is ever counted twice: what is read
 * is at most what whole windows held. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "profile/formats.h"
#include "profile/windows.h"
#include "steer/keeping.h"
#include "steer/regressed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS = 48 };
#define START 1800000000ull

struct input {
    const uint8_t *at, *end;
};

/* The next bytes as a number; 0 at the end. */
static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && in->at < in->end; i++)
        value = value << 8 | *in->at++;
    return value;
}

/* A length of at most `most`, of which the bytes are there. */
static size_t take_length(struct input *in, size_t most)
{
    size_t length = (size_t)take(in, 1) % (most + 1);
    return MIN(length, (size_t)(in->end - in->at));
}

static char folder[64];

static void clear_folder(void)
{
    char windows[96];
    snprintf(windows, sizeof(windows), "%s/windows", folder);
    DIR *dir = opendir(windows);
    for (struct dirent *e; dir && (e = readdir(dir));)
        (void)unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
}

static void remove_folder(void)
{
    char windows[96];
    clear_folder();
    snprintf(windows, sizeof(windows), "%s/windows", folder);
    (void)rmdir(windows);
    (void)rmdir(folder);
}

static bool make_folder(void)
{
    char windows[96];
    if (!*folder) {
        strcpy(folder, "/tmp/sonde-fuzz-store-XXXXXX");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
    }
    snprintf(windows, sizeof(windows), "%s/windows", folder);
    return file_make_folder(windows) == 0;
}

static struct profile *window_of(struct input *in, uint64_t start_s, uint64_t length_s, uint64_t *ret_samples)
{
    static const char *const NAMES[] = {"serve", "parse", "[truncated: x]", "shop (7)"};
    struct profile *p;
    if (profile_new(&p) < 0)
        abort();
    strcpy(p->event, "cpu");
    strcpy(p->unit, "nanoseconds");
    *ret_samples = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t samples = take(in, 1), which = take(in, 1);
        uint32_t service =
            profile_child(p, 0, profile_named_frame(p, which & 4 ? "shop" : "mail", FRAME_GROUP));
        enum profile_frame_kind kind = which & 8 ? FRAME_TRUNCATED : FRAME_NATIVE;
        profile_count(p, profile_child(p, service, profile_named_frame(p, NAMES[which & 3], kind)), samples,
                      samples * 1000);
        *ret_samples += samples;
    }
    p->start_ns = start_s * 1000000000;
    p->end_ns = p->start_ns + length_s * 1000000000;
    return p;
}

/* A file of any name: one of a window's form, or bytes. What it may add to a sum. */
static uint64_t add_file(struct input *in)
{
    char name[64], path[200];
    uint64_t kind = take(in, 1), samples = 0;
    struct text content = {0};
    if (kind & 1) {
        size_t length = take_length(in, 39);
        for (size_t i = 0; i < length; i++)
            name[i] = in->at[i] && in->at[i] != '/' ? (char)in->at[i] : '-';
        name[length] = '\0';
        in->at += length;
    } else {
        snprintf(name, sizeof(name), "%llu-%llu.pb.gz", (unsigned long long)(START + take(in, 2)),
                 (unsigned long long)take(in, kind & 2 ? 2 : 8));
    }
    if (kind & 4) {
        size_t length = take_length(in, 255);
        text_add_bytes(&content, (const char *)in->at, length);
        in->at += length;
    } else {
        struct profile *p = window_of(in, START, 60, &samples);
        if (pprof_write(p, &content) < 0)
            abort();
        profile_free(p);
    }
    snprintf(path, sizeof(path), "%s/windows/%s", folder, name);
    int fd = *name ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0) {
        (void)file_write_all(fd, text_get(&content), content.length);
        close(fd);
    }
    text_done(&content);
    return samples;
}

/* Cuts the file that comes next, wherever. */
static void damage(struct input *in)
{
    struct store_window *list;
    struct problem problem;
    size_t count;
    char path[4200];
    if (store_list(folder, &list, &count, &problem) < 0)
        return;
    if (count) {
        const struct store_window *w = &list[take(in, 1) % count];
        store_window_path(path, sizeof(path), folder, w);
        (void)!truncate(path, (off_t)(w->bytes ? take(in, 2) % (2 * w->bytes) : 0));
    }
    free(list);
}

static uint64_t sum(uint64_t from_s, uint64_t until_s)
{
    struct profile *p;
    struct store_sum of;
    struct problem problem;
    uint64_t samples = 0;
    if (profile_new(&p) < 0 || profile_windows_begin(p) < 0)
        abort();
    if (store_sum(folder, from_s, until_s, p, &of, &problem) == 0) {
        array_foreach (&p->nodes, n)
            samples += n->count;
        if (of.end_s < of.start_s)
            abort();
    }
    profile_free(p);
    return samples;
}

static void judge(struct input *in)
{
    uint64_t from_s = START + take(in, 3), length_s = 1 + take(in, 2);
    struct regressed_options o = {
        .from_s = from_s, .until_s = from_s + length_s, .level = 0.05, .least = 0.0025};
    struct regressed found;
    struct report report = {0};
    struct problem problem;
    if (regressed_find(folder, &o, &found, &problem) < 0)
        return;
    (void)regressed_report(&found, &report);
    regressed_done(&found);
    report_done(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t LENGTHS[] = {1, 2, 5, 10};
    struct input in = {data, data + size};
    struct problem problem;
    uint64_t added = 0, clock_s = START;
    if (!make_folder())
        return 0;
    clear_folder();
    for (int step = 0; step < STEPS && in.at < in.end; step++) {
        uint64_t what = take(&in, 1), samples = 0;
        switch (what & 7) {
        case 0:
        case 1:
        case 2: { /* the clock goes on, or jumps */
            uint64_t length_s = LENGTHS[what >> 3 & 3];
            clock_s = what & 32 ? START + take(&in, 3) : clock_s + length_s;
            uint64_t start_s = clock_s / length_s * length_s;
            struct profile *p = window_of(&in, start_s, length_s, &samples);
            (void)store_add(folder, p, start_s, length_s, &problem);
            profile_free(p);
            break;
        }
        case 3:
            samples = add_file(&in);
            break;
        case 4:
            damage(&in);
            break;
        case 5: {
            struct store_options o = {.keep_s = {take(&in, 2), take(&in, 3), take(&in, 3)},
                                      .quota_bytes = what & 8 ? 1 + take(&in, 2) : 0};
            (void)store_tidy(folder, &o, clock_s + take(&in, 3), &problem);
            break;
        }
        case 6:
            (void)sum(START + take(&in, 2), START + take(&in, 3));
            break;
        default:
            judge(&in);
        }
        added += samples;
    }
    if (sum(0, UINT64_MAX / 2) > added)
        abort();
    return 0;
}
