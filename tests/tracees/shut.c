/* Pipes whose other sides others have shut. Whoever knows that a process has closed its end, or has ended, has to find the
 * pipe so. Each process looks at names before, and at names that are not there: what it is told may be wrong for a while.
 * It prints "NAME ok" for each way, or what was wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "looks.h"

static pid_t child_of(int ends[2], int closed)
{
    pid_t child;
    is("pipe", pipe(ends), 0);
    look();
    fflush(stdout);
    child = fork();
    is("fork", child >= 0, 1);
    if (child == 0) {
        close(ends[closed]);
        look();
    }
    return child;
}

static void collect(pid_t child, int wanted)
{
    int status;
    is("the child", waitpid(child, &status, 0), child);
    is("its status", status, wanted);
}

static int looked_at(int end, int events)
{
    struct pollfd looked = {.fd = end, .events = events};
    is("poll", poll(&looked, 1, 0) >= 0, 1);
    return looked.revents;
}

/* All that is to be read, as it comes. */
static void reads(int end, const char *wanted)
{
    char got[64];
    size_t length = 0;
    ssize_t piece;
    while ((piece = read(end, got + length, sizeof got - 1 - length)) > 0)
        length += (size_t)piece;
    got[length] = 0;
    is("the last read", piece, 0);
    if (strcmp(got, wanted)) {
        printf("%s: \"%s\", not \"%s\"\n", name, got, wanted);
        exit(1);
    }
}

static void writes(int end, const char *bytes)
{
    size_t length = strlen(bytes);
    is("write", write(end, bytes, length), (long)length);
}

static void read_first(void)
{
    int ends[2];
    pid_t child = child_of(ends, 0);
    if (child == 0) {
        writes(ends[1], "a");
        look();
        writes(ends[1], "b");
        _exit(1);
    }
    close(ends[1]);
    reads(ends[0], "ab");
    look();
    reads(ends[0], "");
    collect(child, 1 << 8);
    close(ends[0]);
}

static void waited_first(void)
{
    int ends[2], unread, queue = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    fd_set set;
    struct timeval none = {0, 0};
    pid_t child = child_of(ends, 0);
    if (child == 0)
        _exit(2);
    close(ends[1]);
    collect(child, 2 << 8);
    is("what poll tells", looked_at(ends[0], POLLIN), POLLHUP);
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    is("select", select(ends[0] + 1, &set, NULL, NULL, &none), 1);
    is("FIONREAD", ioctl(ends[0], FIONREAD, &unread), 0);
    is("what is unread", unread, 0);
    is("epoll_ctl", epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event), 0);
    is("epoll_wait", epoll_wait(queue, &event, 1, 0), 1);
    is("F_SETFL", fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    reads(ends[0], "");
    close(queue);
    close(ends[0]);
}

static void broken(void)
{
    int ends[2];
    pid_t child = child_of(ends, 1);
    if (child == 0)
        _exit(3);
    close(ends[0]);
    collect(child, 3 << 8);
    is("what poll tells", looked_at(ends[1], POLLOUT), POLLOUT | POLLERR);
    is("write", write(ends[1], "x", 1), -1);
    is("its error", errno, EPIPE);
    close(ends[1]);
}

/* By a process that still runs. */
static void closed_by_itself(void)
{
    int ends[2], told[2];
    pid_t child;
    is("pipe", pipe(told), 0);
    child = child_of(ends, 0);
    if (child == 0) {
        close(told[1]);
        writes(ends[1], "c");
        close(ends[1]);
        look();
        reads(told[0], "go");
        _exit(4);
    }
    close(ends[1]);
    reads(ends[0], "c");
    look();
    writes(told[1], "go");
    close(told[0]);
    close(told[1]);
    collect(child, 4 << 8);
    close(ends[0]);

    is("pipe", pipe(ends), 0);
    look();
    close(ends[1]);
    look();
    is("what poll tells", looked_at(ends[0], POLLIN), POLLHUP);
    reads(ends[0], "");
    close(ends[0]);
}

static void handed_on(void)
{
    int ends[2];
    pid_t child = child_of(ends, 0);
    if (child == 0) {
        pid_t other = fork();
        if (other == 0) {
            look();
            writes(ends[1], "d");
            _exit(0);
        }
        close(ends[1]);
        look();
        collect(other, 0);
        _exit(5);
    }
    close(ends[1]);
    reads(ends[0], "d");
    collect(child, 5 << 8);
    close(ends[0]);
}

static void killed(void)
{
    int ends[2];
    char byte;
    pid_t child = child_of(ends, 0);
    if (child == 0) {
        writes(ends[1], "e");
        for (;;)
            look();
    }
    close(ends[1]);
    is("read", read(ends[0], &byte, 1), 1);
    look();
    is("kill", kill(child, SIGKILL), 0);
    reads(ends[0], "");
    collect(child, SIGKILL);
    close(ends[0]);
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*of)(void);
    } ways[] = {
        {"read first", read_first}, {"waited first", waited_first}, {"broken", broken},
        {"closed", closed_by_itself}, {"handed on", handed_on}, {"killed", killed},
    };
    int turn, turns = count > 1 ? atoi(words[1]) : 3;
    signal(SIGPIPE, SIG_IGN);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        name = ways[way].name;
        for (turn = 0; turn < turns; turn++)
            ways[way].of();
        printf("%s ok\n", name);
    }
    return 0;
}
