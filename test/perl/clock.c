/*
 * Loaded before a server's own libraries (LD_PRELOAD). Shifts the wall clock of its processes by as
 * many microseconds as the file named by CLOCK_FILE says; a change of the file takes effect at
 * once. Leaves the monotonic clock alone. (libfaketime does not work: a process that the postmaster
 * forks in a signal handler escapes it.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t none = 0;
static volatile const int64_t *offset = &none;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void
start(void)
{
	const char *name = getenv("CLOCK_FILE");
	int fd = name != NULL ? open(name, O_RDONLY) : -1;
	void *map = fd >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (map != MAP_FAILED)
		offset = map;
	if (fd >= 0)
		close(fd);
}

int
clock_gettime(clockid_t id, struct timespec *result)
{
	if (real_clock == NULL)
		*(void **) &real_clock = dlsym(RTLD_NEXT, "clock_gettime");
	int status = real_clock(id, result);
	if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
	{
		int64_t ns = result->tv_sec * INT64_C(1000000000) + result->tv_nsec + *offset * 1000;
		result->tv_sec = ns / 1000000000;
		result->tv_nsec = ns % 1000000000;
	}
	return status;
}

int
gettimeofday(struct timeval *result, void *zone)
{
	struct timespec now;
	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	result->tv_sec = now.tv_sec;
	result->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *result)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}
