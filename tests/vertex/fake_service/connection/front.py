"""TCP proxy in front of the server, which can close all connections at once."""

import asyncio
import contextlib
import threading

_CHUNK = 65536


class Front:
    """Port of localhost that forwards to port `behind`, also as an HTTP proxy (CONNECT) for any host."""

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Abort all open connections."""
        asyncio.run_coroutine_threadsafe(self._abort(), self._loop).result()

    def close(self) -> None:
        """Abort all connections and stop listening."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, behind_writer}
        begun = await reader.read(_CHUNK)
        if begun.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            behind_writer.write(begun)
        await asyncio.gather(self._forward(reader, behind_writer), self._forward(behind_reader, writer))
        self._writers -= {writer, behind_writer}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                writer.write(chunk)
                await writer.drain()
        writer.close()

    async def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        await self._abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
