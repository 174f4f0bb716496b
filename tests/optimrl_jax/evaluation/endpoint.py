"""A scripted OpenAI-compatible server of the loopback, and the answers that it gives."""

import contextlib
import http.server
import json
import threading


@contextlib.contextmanager
def scripted(answer, *, models=None):
    """An OpenAI-compatible server of the loopback; `answer(body)` returns (status, headers, object).

    It lists `models`, where there are any; without them it knows no other path, like many servers.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._send(*answer(body))

        def do_GET(self):
            is_known = models is not None and self.path == "/v1/models"
            self._send(*((200, {}, {"data": models}) if is_known else (404, {}, {})))

        def _send(self, status, headers, value):
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def completion(text, *, tokens=5, reason="stop"):
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return 200, {}, {"choices": [choice], "usage": {"completion_tokens": tokens}}
