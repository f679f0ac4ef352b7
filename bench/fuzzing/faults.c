/* Makes system calls fail in the process that loads this with LD_PRELOAD, and in its children.
 *
 * FAULT_UNDER  only for files below this directory
 * FAULT_CALL   write, fsync, rename, open, mmap or ftruncate
 * FAULT_ERROR  the errno; 0 makes a write take only half of its bytes
 * FAULT_AFTER  how many calls succeed first
 * FAULT_TIMES  how many calls then fail; after that, the disk works again
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int calls;

static int number(const char *name) {
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

static int below(const char *path) {
    const char *under = getenv("FAULT_UNDER");
    return under && path && strncmp(path, under, strlen(under)) == 0;
}

static int is_below(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

/* Whether this call is to fail; if so, errno is set. */
static int fails(const char *call, int concerned) {
    const char *wanted = getenv("FAULT_CALL");
    if (!concerned || !wanted || strcmp(call, wanted)) return 0;
    int now = __sync_fetch_and_add(&calls, 1), after = number("FAULT_AFTER");
    if (now < after || now >= after + number("FAULT_TIMES")) return 0;
    errno = number("FAULT_ERROR");
    return 1;
}

#define REAL(type, name, ...) ((type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    if (fails("write", is_below(fd))) {
        if (errno) return -1;
        size = size > 1 ? size / 2 : size;
    }
    return REAL(ssize_t, write, int, const void *, size_t)(fd, data, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    if (fails("write", is_below(fd))) {
        if (errno) return -1;
        size = size > 1 ? size / 2 : size;
    }
    return REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)(fd, data, size, at);
}

int fsync(int fd) {
    return fails("fsync", is_below(fd)) ? -1 : REAL(int, fsync, int)(fd);
}

int ftruncate64(int fd, off64_t size) {
    return fails("ftruncate", is_below(fd)) ? -1 : REAL(int, ftruncate64, int, off64_t)(fd, size);
}

int rename(const char *from, const char *to) {
    return fails("rename", below(to) || to[0] != '/') ? -1 : REAL(int, rename, const char *, const char *)(from, to);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (fails("open", (flags & O_ACCMODE) != O_RDONLY && (below(path) || path[0] != '/'))) return -1;
    return REAL(int, open64, const char *, int, ...)(path, flags, mode);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t at) {
    if (fails("mmap", fd >= 0 && is_below(fd))) return MAP_FAILED;
    return REAL(void *, mmap64, void *, size_t, int, int, int, off64_t)(address, size, protection, flags, fd, at);
}
