/* A monotonic clock that runs 40 times slower, about as much slower as a program runs under
 * valgrind. With it, what the program times takes as long as it does otherwise.
 * To be preloaded by instructions.sh. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const long long TIMES = 40, SECOND = 1000000000;
static long long begin;

int clock_gettime(clockid_t id, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, id, time);
    if (result != 0 || id != CLOCK_MONOTONIC)
        return result;
    long long now = time->tv_sec * SECOND + time->tv_nsec;
    if (begin == 0)
        begin = now;
    now = begin + (now - begin) / TIMES;
    time->tv_sec = now / SECOND;
    time->tv_nsec = now % SECOND;
    return 0;
}
