"""What the checks beside this file share. Each prints what it finds: the same inside as outside."""
import ctypes
import errno
import sys

libc = ctypes.CDLL(None, use_errno=True)


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def write(name, text):
    with open(name, "w", encoding="ascii") as file:
        file.write(text)


def read(name):
    with open(name, encoding="ascii") as file:
        return file.read()


def check(name, *values):
    print(name, *values)
    sys.stdout.flush()


def result_of(function, *arguments, **named):
    """What a call returns, or the name of its error."""
    try:
        return function(*arguments, **named)
    except OSError as error:
        return errno.errorcode[error.errno]


def error_of(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "no error"
