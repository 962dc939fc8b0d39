/* Processes that change and see files of one directory: `apart MODE`.
 *
 * A call may be told what is wrong, and is undone then: each is made until it succeeds. */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 60, WORKERS_MAX = 3 };

static const char *const NAMES[WORKERS_MAX] = {"left", "right", "bystander"};
static int own[WORKERS_MAX];

/* Makes no call, so that it is guessed by none whether that ends well. */
static void check(int is_so)
{
	if (!is_so)
		__builtin_trap();
}

static int open_new(const char *path)
{
	int file;
	do
		file = open(path, O_CREAT | O_RDWR, 0644);
	while (file < 0);
	return file;
}

/* Waits until this process depends on nothing. No call follows that is guessed. */
static void settle(void)
{
	check(kill(0, 0) == 0);
}

/* Makes files, and removes some. */
static void make(const char *name)
{
	char path[64];
	for (int number = 0; number < COUNT; number++) {
		int length = sprintf(path, "there/%s%d", name, number);
		int file = open_new(path);
		check(write(file, path, length) == length);
		close(file);
		if (number % 3 == 0)
			while (unlink(path) != 0)
				;
	}
}

/* Waits for each of those that stay. */
static void see(const char *name)
{
	struct stat seen;
	char path[64];
	for (int number = 0; number < COUNT; number++) {
		sprintf(path, "there/%s%d", name, number);
		if (number % 3 != 0)
			while (stat(path, &seen) != 0)
				;
	}
}

/* Writes to a file that is open, and tells of it. */
static void tell(const char *name, int out)
{
	char line[64], again[64];
	for (int number = 0; number < 5 * COUNT; number++) {
		int length = sprintf(line, "%s %d\n", name, number);
		check(pwrite(out, line, length, 0) == length);
		check(pread(out, again, length, 0) == length);
		check(memcmp(line, again, length) == 0);
		check(write(1, line, length) == length);
	}
}

int main(int count, char **arguments)
{
	char path[64];
	pid_t children[WORKERS_MAX];
	check(count == 2);
	int are_makers = strcmp(arguments[1], "makers") == 0;
	int is_seen = strcmp(arguments[1], "seen") == 0;
	struct stat there;
	while (mkdir("there", 0755) != 0 && stat("there", &there) != 0)
		;
	for (int worker = 0; worker < WORKERS_MAX; worker++) {
		sprintf(path, "there/%s", NAMES[worker]);
		own[worker] = open_new(path);
	}
	settle();
	for (int worker = 0; worker < WORKERS_MAX; worker++) {
		children[worker] = fork();
		check(children[worker] >= 0);
		if (children[worker] != 0)
			continue;
		if (worker == 0 || (worker == 1 && are_makers))
			make(NAMES[worker]);
		else if (worker == 1 && is_seen)
			see(NAMES[0]);
		else if (worker == 2 && !are_makers)
			tell(NAMES[worker], own[worker]);
		settle();
		_exit(worker);
	}
	if (are_makers)
		make("parent");
	settle();
	for (int worker = 0; worker < WORKERS_MAX; worker++) {
		int status;
		check(waitpid(children[worker], &status, 0) == children[worker]);
		check(WIFEXITED(status) && WEXITSTATUS(status) == worker);
	}
	_exit(0);
}
