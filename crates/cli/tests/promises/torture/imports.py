import argparse, ast, asyncio, base64, bisect, bz2, calendar, cmd, codecs, collections, configparser, copy
import csv, datetime, dbm, decimal, difflib, dis, doctest, email, enum, fileinput, fnmatch, fractions
import functools, getopt, glob, gzip, hashlib, heapq, html, http.client, imaplib, inspect, io, itertools
import json, keyword, linecache, locale, logging, lzma, mailbox, math, mimetypes, netrc, numbers, operator
import optparse, os, pathlib, pickle, pprint, queue, random, re, sched, shelve, shlex, shutil, smtplib
import socket, sqlite3, statistics, string, subprocess, tarfile, tempfile, textwrap, threading, tokenize
import trace, unittest, urllib.request, uuid, wave, xml.dom.minidom, zipfile
print(len([m for m in list(__import__('sys').modules) if '.' not in m]) > 100, json.dumps({'a': [1, 2]}))
print(sorted(os.listdir('/etc'))[:3], hashlib.sha256(open(__file__, 'rb').read()).hexdigest())
