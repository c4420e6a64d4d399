"""A WSGI app that counts the requests of each user in the memory of its process."""

import json
import os
import threading
import time

counts = {}
lock = threading.Lock()
journal = os.open("journal", os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)


def record(event, request, user):
    os.write(journal, f"{event} {request} {user} {time.monotonic_ns()}\n".encode())


def app(environ, start_response):
    if environ["PATH_INFO"] == "/health":
        start_response("204 No Content", [])
        return []
    user, request = environ["HTTP_X_USER"], environ["HTTP_X_REQUEST_ID"]
    record("begin", request, user)
    with lock:
        counts[user] = count = counts.get(user, 0) + 1
    time.sleep(float(environ.get("HTTP_X_SLEEP", "0")))
    record("end", request, user)
    body = json.dumps({"count": count, "instance": os.environ["WORKER"]}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
