"""A bucket in memory under gs://, with the habits of an object store: no directories but prefixes, no append."""

import io

import fsspec


class BucketFiles(fsspec.AbstractFileSystem):
    """Objects by name; a directory is there while an object lies below it."""

    protocol = ("gs", "gcs")
    cachable = False
    objects: dict[str, bytes] = {}  # noqa: RUF012 (shared by all instances, as a bucket is)

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        below_path = path + "/" if path else ""
        found = {}
        for name, content in self.objects.items():
            if name == path:
                found[name] = {"name": name, "size": len(content), "type": "file"}
            elif name.startswith(below_path):
                child, _, below = name[len(below_path) :].partition("/")
                entry = {"name": below_path + child, "size": 0, "type": "directory"}
                found[entry["name"]] = entry if below else entry | {"size": len(content), "type": "file"}
        if not found:
            raise FileNotFoundError(path)
        return list(found.values()) if detail else list(found)

    def mkdir(self, path, create_parents=True, **kwargs):
        pass

    def makedirs(self, path, exist_ok=False):
        pass

    def rm(self, path, recursive=False, maxdepth=None):
        path = self._strip_protocol(path)
        below = [name for name in self.objects if name == path or name.startswith(path + "/")]
        if not below:
            raise FileNotFoundError(path)
        for name in below:
            del self.objects[name]

    def cp_file(self, path1, path2, **kwargs):
        self.objects[self._strip_protocol(path2)] = self.objects[self._strip_protocol(path1)]

    def _open(self, path, mode="rb", **kwargs):
        name = self._strip_protocol(path)
        if mode == "rb":
            if name not in self.objects:
                raise FileNotFoundError(path)
            return io.BytesIO(self.objects[name])
        assert mode == "wb", "objects are written whole"
        return _Upload(self.objects, name)


class _Upload(io.BytesIO):
    def __init__(self, objects, name):
        super().__init__()
        self._objects, self._name = objects, name

    def close(self):
        if not self.closed:
            self._objects[self._name] = self.getvalue()
        super().close()
