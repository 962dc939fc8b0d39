/* Programs that ask whether a pipe is ready, by each call that tells. What they are told has to be so. Each process looks at
 * names before, and at names that are not there: what it is told may be wrong for a while. It prints "WHAT ok", or what was
 * wrong. An argument names the only part to be done. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "looks.h"

enum { POLL, PPOLL, SELECT, PSELECT, WAYS };

/* A process that was just born is taken for one that is about to execute a program, and is left alone. */
static void look_for_a_while(void)
{
    for (int times = 0; times < 25; times++)
        look();
}

/* Whether there is something to be read, once there is or at once. */
static int ask(int way, int end, int waits)
{
    struct pollfd asked[2] = {{.fd = -1, .events = POLLIN, .revents = -1},
                              {.fd = end, .events = POLLIN, .revents = -1}};
    struct timespec none = {0, 0};
    struct timeval nothing = {0, 0};
    fd_set set;
    int told;
    FD_ZERO(&set);
    FD_SET(end, &set);
    switch (way) {
    case POLL:
    case PPOLL:
        told = way == POLL ? poll(asked, 2, waits ? -1 : 0) : ppoll(asked, 2, waits ? NULL : &none, NULL);
        is("what is told of no descriptor", asked[0].revents, 0);
        is("what is told of the pipe", asked[1].revents, told ? POLLIN : 0);
        return told;
    case SELECT:
        told = select(end + 1, &set, NULL, NULL, waits ? NULL : &nothing);
        break;
    default:
        told = pselect(end + 1, &set, NULL, NULL, waits ? NULL : &none, NULL);
    }
    is("the set", FD_ISSET(end, &set), told);
    return told;
}

static void writes(int end, char byte)
{
    is("write", write(end, &byte, 1), 1);
}

static void reads(int end, char wanted)
{
    char got;
    is("read", read(end, &got, 1), 1);
    is("the byte", got, wanted);
}

/* What a process has written and read itself. */
static void own(void)
{
    int ends[2];
    is("pipe", pipe(ends), 0);
    for (int way = 0; way < WAYS; way++) {
        look();
        writes(ends[1], 'a' + way);
        is("a full pipe", ask(way, ends[0], 1), 1);
        reads(ends[0], 'a' + way);
        is("an empty pipe", ask(way, ends[0], 0), 0);
    }
}

/* What another one writes, who looks before. */
static void others(void)
{
    int there[2], back[2], status;
    is("pipe", pipe(there), 0);
    is("pipe", pipe(back), 0);
    fflush(stdout);
    pid_t child = fork();
    is("fork", child >= 0, 1);
    if (!child)
        look_for_a_while();
    for (int way = 0; way < WAYS; way++) {
        if (child) {
            look();
            writes(there[1], 'a' + way);
        }
        int *from = child ? back : there;
        is("a pipe to come", ask(way, from[0], 1), 1);
        reads(from[0], 'a' + way);
        look();
        if (!child)
            writes(back[1], 'a' + way);
    }
    if (!child)
        exit(0);
    is("the child", waitpid(child, &status, 0), child);
    is("its status", status, 0);
}

/* Several take a token to work, and give it back: as the jobserver of make. */
static void tokens(void)
{
    enum { WORKERS = 3, ROUNDS = 4 };
    int ends[2], status;
    char token;
    is("pipe", pipe2(ends, O_NONBLOCK), 0);
    writes(ends[1], '+');
    writes(ends[1], '+');
    fflush(stdout);
    for (int worker = 0; worker < WORKERS; worker++) {
        pid_t child = fork();
        is("fork", child >= 0, 1);
        if (child)
            continue;
        look_for_a_while();
        for (int round = 0; round < ROUNDS; round++) {
            do {
                is("a token", ask(PSELECT, ends[0], 1), 1);
                status = (int)read(ends[0], &token, 1);
            } while (status == -1 && errno == EAGAIN);
            is("the tokens taken", status, 1);
            look();
            writes(ends[1], token);
        }
        exit(0);
    }
    for (int worker = 0; worker < WORKERS; worker++) {
        is("a worker", wait(&status) > 0, 1);
        is("its status", status, 0);
    }
    reads(ends[0], '+');
    reads(ends[0], '+');
    is("a third token", ask(PSELECT, ends[0], 0), 0);
}

/* Nobody is left to write to a pipe, but for what is undecided. */
static void hung_up(void)
{
    int status;
    for (int way = 0; way < WAYS; way++) {
        struct pollfd asked = {.events = POLLIN};
        int ends[2];
        pid_t child;
        char byte;
        is("pipe", pipe(ends), 0);
        look();
        child = fork();
        is("fork", child >= 0, 1);
        if (child == 0) {
            look();
            _exit(way);
        }
        close(ends[1]);
        if (way == POLL || way == PPOLL) {
            asked.fd = ends[0];
            is("a hangup", way == POLL ? poll(&asked, 1, -1) : ppoll(&asked, 1, NULL, NULL), 1);
            is("what is told of it", asked.revents, POLLHUP);
        } else {
            is("an end", ask(way, ends[0], 1), 1);
        }
        is("the end", read(ends[0], &byte, 1), 0);
        is("the child", waitpid(child, &status, 0), child);
        is("its status", WEXITSTATUS(status), way);
        close(ends[0]);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*does)(void);
    } parts[] = {{"own", own}, {"others", others}, {"tokens", tokens}, {"hung up", hung_up}};
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
        name = parts[part].name;
        if (argc > 1 && strcmp(argv[1], name))
            continue;
        parts[part].does();
        printf("%s ok\n", name);
    }
    return 0;
}
