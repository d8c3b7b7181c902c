/* See record.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "history/record.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/map.h"
#include "history/bits.h"

enum { PAGE = 1 << RECORD_PAGE_SHIFT };

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + RECORD_ALIGN - 1) & ~(uint64_t)(RECORD_ALIGN - 1);
}

static uint32_t page_count(uint64_t body_bytes)
{
    return (uint32_t)((body_bytes + PAGE - 1) >> RECORD_PAGE_SHIFT);
}

static uint64_t table_bytes(uint64_t body_bytes)
{
    return aligned((uint64_t)page_count(body_bytes) * sizeof(uint32_t));
}

static uint32_t page_sum(const uint8_t *body, uint64_t body_bytes, uint32_t page)
{
    uint64_t at = (uint64_t)page << RECORD_PAGE_SHIFT;
    return (uint32_t)map_hash(body + at, MIN((uint64_t)PAGE, body_bytes - at));
}

static uint64_t head_sum(const struct record_head *head)
{
    return map_hash(head, offsetof(struct record_head, checksum));
}

uint64_t record_end(const struct record *record)
{
    return record->file_at + sizeof(struct record_head) + table_bytes(record->head.body_bytes) +
           aligned(record->head.body_bytes);
}

static uint64_t body_at(const struct record *record)
{
    return record->file_at + sizeof(struct record_head) + table_bytes(record->head.body_bytes);
}

/* ---- Writing ---- */

static int write_at(struct record_file *file, uint64_t at, const void *data, size_t length,
                    struct problem *problem)
{
    const char *p = data;
    while (length) {
        ssize_t n = pwrite(file->fd, p, length, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int r = n < 0 ? -errno : -EIO;
            problem_set(problem, r, "%s: offset %" PRIu64 ": cannot write %zu bytes: %s", file->path, at,
                        length, strerror(-r));
            if (r == -ENOSPC || r == -EDQUOT)
                problem_remedy(problem, "make room on that disk: the changes are kept and written then");
            return r;
        }
        p += n;
        at += (uint64_t)n;
        length -= (size_t)n;
    }
    return 0;
}

int record_file_create(struct record_file *file, int fd, const char *path, uint64_t start_ns,
                       struct problem *problem)
{
    *file = (struct record_file){.fd = fd, .path = path};
    struct file_head head = {.magic = "SNDHIST\n", .version = FILE_VERSION, .start_ns = start_ns};
    head.checksum = map_hash(&head, offsetof(struct file_head, checksum));
    int r = write_at(file, 0, &head, sizeof(head), problem);
    if (r == 0)
        file->bytes = sizeof(head);
    return r;
}

static int write_record(struct record_file *file, const struct record *record, const uint32_t *table,
                        const void *body, struct problem *problem)
{
    /* The head goes first and says how much must follow: a kill in between leaves a record that is too short.
     */
    uint64_t at = record->file_at, length = record->head.body_bytes, end = record_end(record);
    int r = write_at(file, at, &record->head, sizeof(record->head), problem);
    at += sizeof(record->head);
    if (r == 0 && length)
        r = write_at(file, at, table, (size_t)table_bytes(length), problem);
    at += table_bytes(length);
    if (r == 0)
        r = write_at(file, at, body, length, problem);
    at += length;
    static const char ZEROS[RECORD_ALIGN];
    if (r == 0 && at < end)
        r = write_at(file, at, ZEROS, (size_t)(end - at), problem);
    if (r == 0 && file->durable && fdatasync(file->fd) < 0)
        r = problem_set(problem, -errno, "%s: cannot sync: %s", file->path, strerror(errno));
    return r;
}

/* Cuts the file behind its last record. Where that fails, the next record overwrites what is there. */
static void cut(const struct record_file *file)
{
    if (ftruncate(file->fd, (off_t)file->bytes) < 0)
        errno = 0;
}

void record_take_back(struct record_file *file, const struct record *record)
{
    file->bytes = record->file_at;
    file->records--;
    cut(file);
}

int record_append(struct record_file *file, struct record_head *head, const void *body,
                  struct record *ret_record, struct problem *problem)
{
    uint64_t length = head->body_bytes;
    uint32_t pages = page_count(length);
    _cleanup_(freep) uint32_t *table = calloc(1, (size_t)table_bytes(length) + sizeof(uint32_t));
    _cleanup_(freep) uint64_t *checked = calloc(pages / 64 + 1, sizeof(*checked));
    if (!table || !checked)
        return problem_set(problem, -ENOMEM, "%s: no memory for a segment's checksums", file->path);
    for (uint32_t i = 0; i < pages; i++)
        table[i] = page_sum(body, length, i);
    head->magic = RECORD_MAGIC;
    head->number = file->records;
    head->pages_checksum = map_hash(table, (size_t)pages * sizeof(*table));
    head->checksum = head_sum(head);
    struct record record = {.head = *head, .file_at = file->bytes, .pages = pages};

    int r = write_record(file, &record, table, body, problem);
    if (r < 0) {
        cut(file);
        return r;
    }
    file->bytes = record_end(&record);
    file->records++;
    if (ret_record) {
        record.checked = checked;
        checked = NULL;
        *ret_record = record;
    }
    return 0;
}

/* ---- Reading ---- */

int record_file_open(struct record_file *file, int fd, uint64_t bytes, const char *path,
                     uint64_t *ret_start_ns, struct problem *problem)
{
    *file = (struct record_file){.fd = fd, .path = path};
    struct file_head head;
    if (bytes < sizeof(head))
        return problem_set(problem, -EBADMSG,
                           "%s: offset 0: expected a history's head of %zu bytes, the file has %" PRIu64,
                           path, sizeof(head), bytes);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return problem_set(problem, -errno, "%s: cannot map %" PRIu64 " bytes: %s", path, bytes,
                           strerror(errno));
    file->map = map;
    file->map_bytes = bytes;
    memcpy(&head, map, sizeof(head));
    if (memcmp(head.magic, "SNDHIST\n", 8))
        return problem_set(problem, -EBADMSG, "%s: offset 0: expected a history (\"SNDHIST\")", path);
    if (head.checksum != map_hash(&head, offsetof(struct file_head, checksum)))
        return problem_set(problem, -EBADMSG, "%s: offset 0: the checksum of the file's head is wrong", path);
    if (head.version != FILE_VERSION) {
        problem_set(problem, -EBADMSG, "%s: offset 8: expected version %d, found %u", path, FILE_VERSION,
                    head.version);
        problem_remedy(problem, "open it with the version of sonde that wrote it");
        return -EBADMSG;
    }
    *ret_start_ns = head.start_ns;
    file->bytes = sizeof(head);
    return 0;
}

void record_file_done(struct record_file *file)
{
    if (file->map)
        munmap((void *)file->map, file->map_bytes);
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct record_file){.fd = -1};
}

static bool good_head(const uint8_t *p, struct record_head *head)
{
    memcpy(head, p, sizeof(*head));
    return head->magic == RECORD_MAGIC && head->checksum == head_sum(head);
}

/* Whether a whole head lies somewhere behind `at`: then what is wrong at `at` is damage, not a killed writer.
 */
static bool more_follows(const struct record_file *file, uint64_t at, uint32_t number)
{
    struct record_head head;
    for (at += RECORD_ALIGN; at + sizeof(head) <= file->map_bytes; at += RECORD_ALIGN)
        if (good_head(file->map + at, &head) && head.number > number)
            return true;
    return false;
}

int record_next(struct record_file *file, uint64_t at, struct record *ret_record, struct problem *problem)
{
    struct record record = {.file_at = at};
    uint64_t left = at <= file->map_bytes ? file->map_bytes - at : 0;
    if (left < sizeof(record.head))
        return 0;
    if (!good_head(file->map + at, &record.head)) {
        if (!more_follows(file, at, file->records))
            return 0;
        return problem_set(problem, -EBADMSG, "%s: offset %" PRIu64 ": the head of record %u is damaged",
                           file->path, at, file->records);
    }
    uint64_t length = record.head.body_bytes;
    if (record.head.number != file->records)
        return problem_set(problem, -EBADMSG, "%s: offset %" PRIu64 ": expected record %u, found %u",
                           file->path, at, file->records, record.head.number);
    if (length > UINT32_MAX || record_end(&record) - at > left)
        return length > UINT32_MAX
                   ? problem_set(problem, -EBADMSG,
                                 "%s: offset %" PRIu64 ": expected at most 4 GiB, found %" PRIu64, file->path,
                                 at, length)
                   : 0;
    record.pages = page_count(length);
    const uint8_t *table = file->map + at + sizeof(record.head);
    if (record.head.pages_checksum != map_hash(table, (size_t)record.pages * sizeof(uint32_t)))
        return problem_set(problem, -EBADMSG,
                           "%s: offset %" PRIu64 ": the checksum of the page table is wrong", file->path,
                           at + sizeof(record.head));
    record.checked = calloc(record.pages / 64 + 1, sizeof(*record.checked));
    if (!record.checked)
        return problem_set(problem, -ENOMEM, "%s: no memory", file->path);
    record.body = file->map + body_at(&record);
    *ret_record = record;
    return 1;
}

int record_map(struct record_file *file, struct record *record, struct problem *problem)
{
    if (record->body)
        return 0;
    uint64_t at = body_at(record), page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t from = record->file_at & ~(page - 1);
    size_t bytes = (size_t)(record_end(record) - from);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file->fd, (off_t)from);
    if (map == MAP_FAILED)
        return problem_set(problem, -errno, "%s: cannot map offset %" PRIu64 ": %s", file->path, from,
                           strerror(errno));
    record->map = map;
    record->map_bytes = bytes;
    record->body = (const uint8_t *)map + (at - from);
    file->mapped_bytes += bytes;
    return 0;
}

void record_unmap(struct record_file *file, struct record *record)
{
    if (!record->map)
        return;
    munmap(record->map, record->map_bytes);
    file->mapped_bytes -= record->map_bytes;
    record->map = NULL;
    record->body = NULL;
}

void record_done(struct record_file *file, struct record *record)
{
    record_unmap(file, record);
    free(record->checked);
    *record = (struct record){0};
}

int record_check_slow(const struct record_file *file, struct record *record, uint64_t from, uint64_t length,
                      struct problem *problem)
{
    if (from > record->head.body_bytes || length > record->head.body_bytes - from)
        return problem_set(problem, -EBADMSG,
                           "%s: offset %" PRIu64 ": %" PRIu64 " bytes at %" PRIu64 " of a record of %" PRIu64,
                           file->path, record->file_at, length, from, record->head.body_bytes);
    if (!length)
        return 0;
    uint32_t first = (uint32_t)(from >> RECORD_PAGE_SHIFT),
             last = (uint32_t)((from + length - 1) >> RECORD_PAGE_SHIFT);
    const uint8_t *table = record->body - table_bytes(record->head.body_bytes);
    for (uint32_t page = first; page <= last; page++) {
        uint64_t bit = (uint64_t)1 << (page & 63);
        if (__atomic_load_n(&record->checked[page / 64], __ATOMIC_RELAXED) & bit)
            continue;
        uint32_t expected;
        memcpy(&expected, table + (size_t)page * sizeof(expected), sizeof(expected));
        if (page_sum(record->body, record->head.body_bytes, page) != expected)
            return problem_set(problem, -EBADMSG,
                               "%s: offset %" PRIu64 ": the checksum of the 64 KiB from here is wrong",
                               file->path, body_at(record) + ((uint64_t)page << RECORD_PAGE_SHIFT));
        __atomic_fetch_or(&record->checked[page / 64], bit, __ATOMIC_RELAXED);
    }
    bool all = true;
    for (uint32_t page = 0; all && page < record->pages; page += 64) {
        uint64_t want = bits_mask(MIN(record->pages - page, 64u));
        all = (__atomic_load_n(&record->checked[page / 64], __ATOMIC_RELAXED) & want) == want;
    }
    if (all)
        __atomic_store_n(&record->all_checked, true, __ATOMIC_RELEASE);
    return 0;
}

int record_damaged(const struct record_file *file, const struct record *record, uint64_t body_offset,
                   const char *expected, struct problem *problem)
{
    return problem_set(problem, -EBADMSG, "%s: offset %" PRIu64 ": expected %s", file->path,
                       body_at(record) + body_offset, expected);
}
