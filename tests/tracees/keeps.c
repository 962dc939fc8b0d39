/* A child exits with something that its parent waits for before it asks for the child: a lock of a file, of a record or of an open
 * file, the other end of a pipe, of a connection or of a terminal, and a FIFO. All is given back by the end of the child alone, so
 * an end that waits for the parent would have both wait for ever. Prints "NAME ok" for each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "looks.h"

enum { TURNS = 3, STATUS = 7 };

/* What parent and child share. */
static int ends[2];

static int made(int descriptor)
{
    is("a descriptor", descriptor >= 0, 1);
    return descriptor;
}

static void lock(int file, int command, int kind)
{
    struct flock record = {.l_type = kind, .l_whence = SEEK_SET};
    is("a lock", fcntl(file, command, &record), 0);
}

/* Reads until nobody is left who could write. */
static void read_to_end(int descriptor, long at_end)
{
    char bytes[16];
    long got = 0, part;
    while ((part = read(descriptor, bytes, sizeof bytes)) > 0)
        got += part;
    is("bytes", got, 4);
    is("the end", part, at_end);
    close(descriptor);
}

static void begin_flock(void) { ends[0] = made(open("file", O_CREAT | O_RDWR, 0600)); }
static void take_flock(void)
{
    is("a lock", flock(made(open("file", O_RDWR)), LOCK_EX), 0);
    is("a byte", write(ends[1], "l", 1), 1);
}
static void await_flock(void)
{
    is("a lock after the child's", flock(ends[0], LOCK_EX), 0);
    close(ends[0]);
}

static void take_record(void)
{
    lock(ends[0], F_SETLK, F_WRLCK);
    is("a byte", write(ends[1], "l", 1), 1);
}
static void await_record(void)
{
    lock(ends[0], F_SETLKW, F_WRLCK);
    close(ends[0]);
}

static void begin_pipe(void) { is("pipe", pipe(ends), 0); }
static void begin_connection(void) { is("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); }
static void put(void)
{
    close(ends[0]);
    is("a write", write(ends[1], "four", 4), 4);
}
static void await_end(void)
{
    close(ends[1]);
    read_to_end(ends[0], 0);
}

static void begin_fifo(void)
{
    unlink("fifo");
    is("mkfifo", mkfifo("fifo", 0600), 0);
    ends[0] = made(open("fifo", O_RDONLY | O_NONBLOCK));
    ends[1] = made(open("fifo", O_WRONLY));
    is("its flags", fcntl(ends[0], F_SETFL, 0), 0);
}

/* The child has the only descriptor of the terminal. */
static void begin_terminal(void)
{
    ends[0] = made(posix_openpt(O_RDWR | O_NOCTTY));
    is("unlockpt", unlockpt(ends[0]), 0);
    ends[1] = made(open(ptsname(ends[0]), O_RDWR | O_NOCTTY));
}
static void await_hangup(void)
{
    close(ends[1]);
    read_to_end(ends[0], -1);
}

/* The parent takes a lock once the child has it. */
static void have_locked(void (*begin)(void), void (*take)(void), void (*await)(void))
{
    int told[2], status;
    char byte;
    begin();
    is("pipe", pipe(told), 0);
    ends[1] = told[1];
    look();
    pid_t child = fork();
    if (child == 0) {
        look();
        take();
        look();
        _exit(STATUS);
    }
    close(told[1]);
    is("that it is locked", read(told[0], &byte, 1), 1);
    close(told[0]);
    await();
    is("the child", waitpid(child, &status, 0), child);
    is("its status", WEXITSTATUS(status), STATUS);
}

static void have_open(void (*begin)(void), void (*await)(void))
{
    int status;
    begin();
    look();
    pid_t child = fork();
    if (child == 0) {
        look();
        put();
        look();
        _exit(STATUS);
    }
    look();
    await();
    is("the child", waitpid(child, &status, 0), child);
    is("its status", WEXITSTATUS(status), STATUS);
}

static void of_flock(void) { have_locked(begin_flock, take_flock, await_flock); }
static void of_record(void) { have_locked(begin_flock, take_record, await_record); }
static void of_pipe(void) { have_open(begin_pipe, await_end); }
static void of_connection(void) { have_open(begin_connection, await_end); }
static void of_fifo(void) { have_open(begin_fifo, await_end); }
static void of_terminal(void) { have_open(begin_terminal, await_hangup); }

int main(void)
{
    static const struct {
        const char *name;
        void (*have)(void);
    } all[] = {
        {"pipe", of_pipe}, {"connection", of_connection}, {"terminal", of_terminal},
        {"fifo", of_fifo}, {"flock", of_flock},           {"record", of_record},
    };
    for (size_t place = 0; place < sizeof all / sizeof *all; place++) {
        name = all[place].name;
        for (int turn = 0; turn < TURNS; turn++)
            all[place].have();
        printf("%s ok\n", name);
        fflush(stdout);
    }
    return 0;
}
