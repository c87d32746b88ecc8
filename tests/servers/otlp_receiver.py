"""An OpenTelemetry collector for tests: takes OTLP over HTTP in JSON, checks it against the protocol's own definitions, and
appends one line per request to a file: the path, the headers, and the request or what is wrong with it.

Usage: otlp_receiver.py FILE [--fail-first N] [--hang]. Prints its address.
"""

import base64
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
FILE = sys.argv[1]
HANGS = "--hang" in sys.argv
FAILURES = int(sys.argv[sys.argv.index("--fail-first") + 1]) if "--fail-first" in sys.argv else 0
lock = threading.Lock()
seen = 0


def with_bytes(value):
    """The JSON of the protocol writes ids in hexadecimal digits, where protobuf's own wants base64."""
    if isinstance(value, list):
        return [with_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    encode = lambda digits: base64.b64encode(bytes.fromhex(digits)).decode()
    return {key: encode(item) if key in ids else with_bytes(item) for key, item in value.items()}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        global seen
        body = self.rfile.read(int(self.headers["content-length"]))
        if HANGS:
            time.sleep(3600)
        with lock:
            seen += 1
            status = 503 if seen <= FAILURES else 200
            line = {"path": self.path, "status": status, "headers": {key.lower(): text for key, text in self.headers.items()}}
            try:
                request = json.loads(body)
                # Unknown names and values of the wrong kind are errors.
                json_format.ParseDict(with_bytes(request), KINDS[self.path]())
                line["request"] = request
            except Exception as error:
                line["error"] = f"{type(error).__name__}: {error}"
            with open(FILE, "a") as file:
                file.write(json.dumps(line) + "\n")
        self.send_response(status)
        if status == 503:
            self.send_header("retry-after", "0")
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
