/* Processes that talk by connections of stream sockets, by each call that writes or reads. What they are told has to be so. Each
 * looks at names before, and at names that are not there: what it is told may be wrong for a while. It prints "WHAT ok", or what
 * was wrong. An argument names the only part to be done. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "looks.h"

enum { WRITE, WRITEV, SEND, SENDMSG, READ = 0, READV, RECV, RECVMSG, WAYS };
enum { LONG = 60000 };

/* A process that was just born is taken for one that is about to execute a program, and is left alone. */
static void look_for_a_while(void)
{
    for (int times = 0; times < 25; times++)
        look();
}

static void writes(int way, int socket, const char *bytes, size_t length)
{
    struct iovec pieces[2] = {{(void *)bytes, length / 2}, {(void *)(bytes + length / 2), length - length / 2}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    switch (way) {
    case WRITE:
        is("write", write(socket, bytes, length), (long)length);
        break;
    case WRITEV:
        is("writev", writev(socket, pieces, 2), (long)length);
        break;
    case SEND:
        is("send", send(socket, bytes, length, MSG_NOSIGNAL), (long)length);
        break;
    default:
        is("sendmsg", sendmsg(socket, &message, MSG_NOSIGNAL), (long)length);
    }
}

/* A read of at most so many bytes. */
static long reads_once(int way, int socket, char *bytes, size_t length)
{
    char control[128];
    struct iovec pieces[2] = {{bytes, length / 2}, {bytes + length / 2, length - length / 2}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2, .msg_control = control,
                             .msg_controllen = sizeof control, .msg_flags = -1};
    long got;
    switch (way) {
    case READ:
        return read(socket, bytes, length);
    case READV:
        return readv(socket, pieces, 2);
    case RECV:
        return recv(socket, bytes, length, 0);
    default:
        got = recvmsg(socket, &message, 0);
        is("the length of what else has come", (long)message.msg_controllen, 0);
        is("the flags", message.msg_flags, 0);
        return got;
    }
}

static void reads(int way, int socket, const char *wanted, size_t length)
{
    static char bytes[LONG + 1];
    for (size_t got = 0; got < length;) {
        long more = reads_once(way, socket, bytes + got, length - got);
        is("a read", more > 0, 1);
        got += (size_t)more;
    }
    is("what was read", memcmp(bytes, wanted, length), 0);
}

static void has(int socket, short events, int wanted)
{
    struct pollfd asked = {.fd = socket, .events = events};
    is("poll", poll(&asked, 1, wanted ? -1 : 0), wanted != 0);
    is("what is ready", asked.revents, wanted);
}

/* Bears a child that does this with one socket of a pair. Returns the other one. */
static int with_child(void (*does)(int), pid_t *child)
{
    int pair[2];
    is("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fflush(stdout);
    *child = fork();
    is("fork", *child >= 0, 1);
    if (*child == 0) {
        close(pair[0]);
        look_for_a_while();
        does(pair[1]);
        exit(0);
    }
    close(pair[1]);
    return pair[0];
}

static void ends_well(pid_t child)
{
    int status;
    is("the child", waitpid(child, &status, 0), child);
    is("its status", status, 0);
}

/* What a process has written and read itself. */
static void own(void)
{
    int pair[2];
    char byte;
    is("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int way = 0; way < WAYS; way++) {
        look();
        writes(way, pair[0], "there", 5);
        writes(way, pair[1], "back", 4);
        has(pair[1], POLLIN | POLLOUT, POLLIN | POLLOUT);
        reads(way, pair[1], "th", 2);
        look();
        reads(way, pair[1], "ere", 3);
        reads(way, pair[0], "back", 4);
        has(pair[0], POLLIN, 0);
        is("recv of nothing", recv(pair[0], &byte, 1, MSG_DONTWAIT), -1);
        is("its error", errno, EAGAIN);
    }
}

static void echoes(int socket)
{
    char bytes[16];
    for (int way = 0;; way++) {
        long got = reads_once(way % WAYS, socket, bytes, sizeof bytes);
        is("a read", got >= 0, 1);
        if (got == 0)
            return;
        look();
        writes((way + 1) % WAYS, socket, bytes, (size_t)got);
    }
}

static void talk(void)
{
    pid_t child;
    int socket = with_child(echoes, &child);
    for (int way = 0; way < WAYS * WAYS; way++) {
        char text[8];
        int length = snprintf(text, sizeof text, "%d;", way);
        look();
        writes(way % WAYS, socket, text, (size_t)length);
        if (way % 3 == 0)
            has(socket, POLLIN, POLLIN);
        reads(way / WAYS, socket, text, (size_t)length);
    }
    is("shutdown", shutdown(socket, SHUT_WR), 0);
    is("the end", reads_once(READ, socket, (char[1]){0}, 1), 0);
    ends_well(child);
}

static char much[LONG];

static void takes_much(int socket)
{
    for (int round = 0; round < 3; round++) {
        look();
        reads(round, socket, much, LONG);
        writes(WRITE, socket, "+", 1);
    }
}

/* More than one buffer of the kernel holds. */
static void long_ones(void)
{
    pid_t child;
    for (int at = 0; at < LONG; at++)
        much[at] = (char)('a' + at % 23);
    int socket = with_child(takes_much, &child);
    for (int round = 0; round < 3; round++) {
        look();
        writes(round, socket, much, LONG);
        reads(READ, socket, "+", 1);
    }
    ends_well(child);
}

/* A connection to a name, as a server has it. */
static void named(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "talks"};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    pid_t child;
    is("bind", bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    is("listen", listen(listener, 1), 0);
    fflush(stdout);
    child = fork();
    is("fork", child >= 0, 1);
    if (child == 0) {
        int server = accept(listener, NULL, NULL);
        is("accept", server >= 0, 1);
        close(client);
        look_for_a_while();
        echoes(server);
        exit(0);
    }
    is("connect", connect(client, (struct sockaddr *)&address, sizeof address), 0);
    for (int way = 0; way < WAYS; way++) {
        look();
        writes(way, client, "hello", 5);
        reads(way, client, "hello", 5);
    }
    close(client);
    ends_well(child);
    is("unlink", unlink(address.sun_path), 0);
}

static void takes_descriptor(int socket)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    char byte;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control};
    look();
    reads(RECV, socket, "before", 6);
    is("recvmsg", recvmsg(socket, &message, 0), 1);
    is("the byte", byte, '!');
    struct cmsghdr *sent = CMSG_FIRSTHDR(&message);
    is("a descriptor", sent != NULL && sent->cmsg_type == SCM_RIGHTS, 1);
    int end;
    memcpy(&end, CMSG_DATA(sent), sizeof end);
    look();
    writes(WRITE, end, "by it", 5);
    reads(READ, socket, "after", 5);
}

/* A descriptor is sent among bytes. */
static void descriptors(void)
{
    pid_t child;
    int ends[2], socket = with_child(takes_descriptor, &child);
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    struct iovec piece = {"!", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control};
    is("pipe", pipe(ends), 0);
    struct cmsghdr *sent = CMSG_FIRSTHDR(&message);
    *sent = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(sent), &ends[1], sizeof(int));
    look();
    writes(SEND, socket, "before", 6);
    is("sendmsg", sendmsg(socket, &message, 0), 1);
    look();
    writes(SEND, socket, "after", 5);
    close(ends[1]);
    reads(READ, ends[0], "by it", 5);
    ends_well(child);
    is("the end", reads_once(READ, ends[0], (char[1]){0}, 1), 0);
    close(ends[0]);
}

static void tells(int socket)
{
    reads(READ, socket, "go", 2);
    look();
    writes(SENDMSG, socket, "me", 2);
}

/* Who has sent something is told, once that is asked for. */
static void senders(void)
{
    pid_t child;
    int socket = with_child(tells, &child), on = 1;
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    char bytes[2];
    struct iovec piece = {bytes, 2};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control};
    is("setsockopt", setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    look();
    /* The kernel notes nobody for what is sent before that is asked for. */
    writes(WRITE, socket, "go", 2);
    is("recvmsg", recvmsg(socket, &message, MSG_WAITALL), 2);
    struct cmsghdr *told = CMSG_FIRSTHDR(&message);
    is("a sender", told != NULL && told->cmsg_type == SCM_CREDENTIALS, 1);
    struct ucred sender;
    memcpy(&sender, CMSG_DATA(told), sizeof sender);
    is("the sender", sender.pid, child);
    ends_well(child);
}

static void leaves(int socket)
{
    look();
    writes(WRITE, socket, "bye", 3);
}

/* Nobody is left who has the other socket. */
static void ends(void)
{
    pid_t child;
    char byte;
    int socket = with_child(leaves, &child);
    look();
    reads(READ, socket, "bye", 3);
    is("the end", read(socket, &byte, 1), 0);
    ends_well(child);
    look();
    is("send to nobody", send(socket, "a", 1, MSG_NOSIGNAL), -1);
    is("its error", errno, EPIPE);
    is("recv at the end", recv(socket, &byte, 1, MSG_DONTWAIT), 0);
}

static void only_looks(int socket)
{
    (void)socket;
    look();
}

/* The process that had the other socket alone has ended, as far as its parent has been told. Each is the first to find that out. */
static void after_exits(void)
{
    pid_t child;
    char byte;
    for (int first = 0; first < 3; first++) {
        int socket = with_child(only_looks, &child);
        struct pollfd asked = {.fd = socket, .events = POLLIN};
        look();
        ends_well(child);
        for (int at = first; at < first + 3; at++) {
            switch (at % 3) {
            case 0:
                is("send to nobody", send(socket, "a", 1, MSG_NOSIGNAL), -1);
                is("its error", errno, EPIPE);
                break;
            case 1:
                is("recv at the end", recv(socket, &byte, 1, MSG_DONTWAIT), 0);
                break;
            default:
                is("poll", poll(&asked, 1, 0), 1);
                is("what is ready", asked.revents, POLLIN | POLLHUP);
            }
        }
        close(socket);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*does)(void);
    } parts[] = {{"own", own},     {"talk", talk},               {"long", long_ones}, {"named", named},
                 {"ends", ends},   {"descriptors", descriptors}, {"exits", after_exits}, {"senders", senders}};
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
        name = parts[part].name;
        if (argc > 1 && strcmp(argv[1], name))
            continue;
        parts[part].does();
        printf("%s ok\n", name);
        fflush(stdout);
    }
    return 0;
}
