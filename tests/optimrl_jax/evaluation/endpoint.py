"""A scripted OpenAI-compatible server of the loopback, and the answers that it gives."""

import contextlib
import http.server
import json
import threading


@contextlib.contextmanager
def scripted(answer):
    """An OpenAI-compatible server of the loopback; `answer(body)` returns (status, headers, object)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, headers, value = answer(body)
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
