"""The person who is paged: an HTTP receiver for Alertmanager's webhooks that writes each delivery as one line of JSON.

usage: receiver.py PORT FILE    listens on all addresses of its network namespace until it is killed
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def serve(port: int, deliveries: Path) -> None:
    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received = time.time()
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            line = json.dumps({"received": received, "path": self.path, "body": json.loads(body)})
            with deliveries.open("a") as file:
                file.write(line + "\n")
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("0.0.0.0", port), Receiver).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
