/* See journal.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/owner.h"

#define MAGIC         0x31524a53u
#define SEGMENT_BYTES ((uint64_t)256 << 20)
#define PAYLOAD_MAX   ((uint32_t)1 << 30)

struct header {
    uint32_t magic, kind, length, zero;
    uint64_t hash;
};

struct journal {
    char *folder;
    uint64_t keep_bytes;
    int fd;
    struct journal_position end;                    /* of what was written */
    struct journal_position durable;                /* of what is on disk */
    struct journal_position held[JOURNAL_READINGS]; /* segments from here on are needed; segment 0: none is */
    struct journal_position follows; /* the end of the last record, also of an earlier segment */
    pthread_mutex_t lock;
    pthread_cond_t synced;
    bool syncing;
    int failed; /* an error after which nothing more can be promised */
};

static void segment_path(const char *folder, uint32_t segment, char *path, size_t size)
{
    snprintf(path, size, "%s/journal-%08u", folder, segment);
}

static uint64_t padded(uint64_t length)
{
    return (length + 7) / 8 * 8;
}

/* The oldest and newest segment's numbers; 0 and 0 when there is none. */
static int list_segments(const char *folder, uint32_t *ret_first, uint32_t *ret_last)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    if (!dir)
        return -errno;
    *ret_first = *ret_last = 0;
    while ((entry = readdir(dir))) {
        unsigned number;
        if (sscanf(entry->d_name, "journal-%8u", &number) != 1 || !number)
            continue;
        if (!*ret_first || number < *ret_first)
            *ret_first = number;
        if (number > *ret_last)
            *ret_last = number;
    }
    closedir(dir);
    return 0;
}

/* Reads the header and payload at an offset; 1, or 0 when there is no whole record. */
static int read_record(int fd, uint64_t offset, struct header *header, char **buffer, size_t *capacity)
{
    ssize_t n = pread(fd, header, sizeof(*header), (off_t)offset);
    if (n < 0)
        return -errno;
    if (n < (ssize_t)sizeof(*header) || header->magic != MAGIC || header->length > PAYLOAD_MAX)
        return 0;
    if (header->length > *capacity) {
        char *grown = realloc(*buffer, header->length);
        if (!grown)
            return -ENOMEM;
        *buffer = grown;
        *capacity = header->length;
    }
    for (size_t done = 0; done < header->length;) {
        n = pread(fd, *buffer + done, header->length - done, (off_t)(offset + sizeof(*header) + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        done += (size_t)n;
    }
    return map_hash(*buffer, header->length) == header->hash;
}

/* The end of the last whole record of a segment. */
static int find_end(int fd, uint64_t *ret_end)
{
    struct header header;
    char *buffer = NULL;
    size_t capacity = 0;
    uint64_t offset = 0;
    int r;
    while ((r = read_record(fd, offset, &header, &buffer, &capacity)) > 0)
        offset += sizeof(header) + padded(header.length);
    free(buffer);
    if (r == 0)
        *ret_end = offset;
    return r;
}

static int sync_folder(const char *folder)
{
    _cleanup_(file_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

static int open_segment(struct journal *j, uint32_t segment)
{
    char path[4096];
    uint64_t end = 0;
    segment_path(j->folder, segment, path, sizeof(path));
    int fd = owner_open(path, O_RDWR | O_CREAT);
    if (fd < 0)
        return fd;
    int r = find_end(fd, &end);
    if (r == 0 && (ftruncate(fd, (off_t)end) < 0 || lseek(fd, (off_t)end, SEEK_SET) < 0))
        r = -errno;
    if (r == 0)
        r = sync_folder(j->folder);
    if (r < 0) {
        close(fd);
        return r;
    }
    if (j->fd >= 0)
        close(j->fd);
    j->fd = fd;
    j->end = j->durable = (struct journal_position){segment, end};
    return 0;
}

static bool is_needed(const struct journal *j, uint32_t segment)
{
    bool needed = segment == j->end.segment;
    for (size_t i = 0; i < JOURNAL_READINGS; i++)
        needed |= j->held[i].segment && segment >= j->held[i].segment;
    return needed;
}

/* Removes the oldest segments beyond the size that is kept; never one that is in use. */
static void remove_old(struct journal *j)
{
    uint32_t first, last;
    uint64_t bytes = 0;
    char path[4096];
    struct stat st;
    if (!j->keep_bytes || list_segments(j->folder, &first, &last) < 0)
        return;
    for (uint32_t s = last; s >= first && s > 0; s--) {
        segment_path(j->folder, s, path, sizeof(path));
        if (stat(path, &st) < 0)
            continue;
        bytes += (uint64_t)st.st_size;
        if (bytes > j->keep_bytes && !is_needed(j, s))
            unlink(path);
    }
}

int journal_open(const char *folder, uint64_t keep_bytes, struct journal **ret_journal,
                 struct problem *problem)
{
    struct journal *j = calloc(1, sizeof(*j));
    uint32_t first = 0, last = 0;
    if (!j)
        return -ENOMEM;
    j->fd = -1;
    j->keep_bytes = keep_bytes;
    j->folder = strdup(folder);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->synced, NULL);
    int r = j->folder ? file_make_folder(folder) : -ENOMEM;
    if (r == 0)
        r = list_segments(folder, &first, &last);
    if (r == 0)
        r = open_segment(j, last ? last : 1);
    j->follows = j->end;
    if (r < 0) {
        problem_set(problem, r, "%s: the journal cannot be opened: %s", folder, strerror(-r));
        journal_close(j);
        return r;
    }
    *ret_journal = j;
    return 0;
}

/* Writes one record; what a failed write left behind is cut off again. */
static int write_record(struct journal *j, uint32_t kind, const void *payload, size_t length)
{
    static const char zeros[8];
    struct header header = {MAGIC, kind, (uint32_t)length, 0, map_hash(payload, length)};
    uint64_t size = sizeof(header) + padded(length);
    struct iovec parts[] = {{&header, sizeof(header)},
                            {(void *)(uintptr_t)payload, length},
                            {(void *)(uintptr_t)zeros, padded(length) - length}};
    ssize_t n = pwritev(j->fd, parts, 3, (off_t)j->end.offset);
    if (n == (ssize_t)size) {
        j->end.offset += size;
        return 0;
    }
    int error = n < 0 ? -errno : -ENOSPC;
    if (n >= 0) { /* a short write: the rest fails with the true reason */
        _cleanup_(freep) char *whole = malloc(size);
        if (whole) {
            memcpy(whole, &header, sizeof(header));
            memcpy(whole + sizeof(header), payload, length);
            memset(whole + sizeof(header) + length, 0, padded(length) - length);
            uint64_t done = (uint64_t)n;
            while (done < size &&
                   (n = pwrite(j->fd, whole + done, size - done, (off_t)(j->end.offset + done))) > 0)
                done += (uint64_t)n;
            if (done == size) {
                j->end.offset += size;
                return 0;
            }
            error = n < 0 ? -errno : -ENOSPC;
        }
    }
    if (ftruncate(j->fd, (off_t)j->end.offset) < 0)
        j->failed = -errno;
    return error;
}

static bool before(struct journal_position a, struct journal_position b)
{
    return a.segment != b.segment ? a.segment < b.segment : a.offset < b.offset;
}

/* Waits until everything up to mine is on disk; one of those who wait syncs for all. Holds the lock. */
static int make_durable(struct journal *j, struct journal_position mine)
{
    while (!j->failed && before(j->durable, mine)) {
        if (j->syncing) {
            pthread_cond_wait(&j->synced, &j->lock);
            continue;
        }
        struct journal_position end = j->end;
        int fd = j->fd;
        j->syncing = true;
        pthread_mutex_unlock(&j->lock);
        int r = fdatasync(fd) < 0 ? -errno : 0;
        pthread_mutex_lock(&j->lock);
        j->syncing = false;
        if (r < 0)
            j->failed = r; /* what the kernel dropped cannot be synced again */
        else if (before(j->durable, end))
            j->durable = end;
        pthread_cond_broadcast(&j->synced);
    }
    return j->failed;
}

int journal_append(struct journal *j, uint32_t kind, const void *payload, size_t length,
                   struct journal_position *ret_before, struct journal_position *ret_end)
{
    struct journal_position previous = {0};
    if (length > PAYLOAD_MAX)
        return -EFBIG;
    pthread_mutex_lock(&j->lock);
    int r = j->failed;
    while (r == 0 && j->end.offset >= SEGMENT_BYTES) {
        r = make_durable(j, j->end);
        while (r == 0 && j->syncing)
            pthread_cond_wait(&j->synced, &j->lock);
        if (r == 0 && j->end.offset >= SEGMENT_BYTES) {
            r = open_segment(j, j->end.segment + 1);
            remove_old(j);
        }
    }
    if (r == 0)
        r = write_record(j, kind, payload, length);
    struct journal_position mine = j->end;
    if (r == 0) {
        previous = j->follows;
        j->follows = mine;
        r = make_durable(j, mine);
    }
    pthread_mutex_unlock(&j->lock);
    if (r == 0 && ret_before)
        *ret_before = previous;
    if (r == 0 && ret_end)
        *ret_end = mine;
    return r;
}

void journal_hold(struct journal *j, enum journal_reading reading, struct journal_position from)
{
    pthread_mutex_lock(&j->lock);
    j->held[reading] = from;
    pthread_mutex_unlock(&j->lock);
}

struct journal_position journal_end(struct journal *j)
{
    pthread_mutex_lock(&j->lock);
    struct journal_position end = j->follows;
    pthread_mutex_unlock(&j->lock);
    return end;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0)
        close(j->fd);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->synced);
    free(j->folder);
    free(j);
}

void journal_reader_init(struct journal_reader *reader, const char *folder, struct journal_position from)
{
    *reader = (struct journal_reader){.folder = folder, .at = from, .fd = -1};
}

void journal_reader_seek(struct journal_reader *reader, struct journal_position to)
{
    if (reader->fd >= 0 && reader->at.segment != to.segment) {
        close(reader->fd);
        reader->fd = -1;
    }
    reader->at = to;
}

static int reader_open(struct journal_reader *reader)
{
    char path[4096];
    uint32_t first, last;
    int r = list_segments(reader->folder, &first, &last);
    if (r < 0 || !first)
        return r == -ENOENT ? 0 : r;
    if (reader->at.segment < first)
        reader->at = (struct journal_position){first, 0};
    segment_path(reader->folder, reader->at.segment, path, sizeof(path));
    reader->fd = open(path, O_RDONLY | O_CLOEXEC);
    return reader->fd < 0 ? (errno == ENOENT ? 0 : -errno) : 1;
}

int journal_reader_next(struct journal_reader *reader, uint32_t *ret_kind, const void **ret_payload,
                        size_t *ret_length)
{
    bool complete = false; /* a later segment exists, so nothing more is written to this one */
    for (;;) {
        struct header header;
        uint32_t first, last;
        int r = reader->fd >= 0 ? 1 : reader_open(reader);
        if (r <= 0)
            return r;
        r = read_record(reader->fd, reader->at.offset, &header, &reader->buffer, &reader->capacity);
        if (r < 0)
            return r;
        if (r > 0) {
            reader->at.offset += sizeof(header) + padded(header.length);
            *ret_kind = header.kind;
            *ret_payload = reader->buffer;
            *ret_length = header.length;
            return 1;
        }
        if (!complete) {
            r = list_segments(reader->folder, &first, &last);
            if (r < 0 || reader->at.segment >= last)
                return r;
            complete = true; /* read once more: a record may have come before that segment */
            continue;
        }
        close(reader->fd);
        reader->fd = -1;
        reader->at = (struct journal_position){reader->at.segment + 1, 0};
        complete = false;
    }
}

void journal_reader_done(struct journal_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    free(reader->buffer);
    reader->fd = -1;
    reader->buffer = NULL;
}
