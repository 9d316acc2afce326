"""An HTTP request's body: read in pieces, decompressed in pieces, never larger than allowed."""

from __future__ import annotations

import sys
import zlib
from collections.abc import AsyncIterator

from collector.admission import Held
from collector.refusal import Reason, Refused

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ENCODINGS = ("gzip", "zstd", "deflate", "identity")
_CUT = "the compressed body ends too early"
_EITHER_ZLIB_OR_GZIP = 47
# What every decoder should take, and none needs more (RFC 8878, section 3.1.1.1.2): 8 MiB.
_ZSTD = {int(zstd.DecompressionParameter.window_log_max): 23}


async def read_body(pieces: AsyncIterator[bytes], encoding: str, limit: int, held: Held) -> bytes:
    """Read the body that arrives in `pieces`. Raises Refused.

    `limit` counts decompressed bytes, and is enforced before they are made: a small body that
    would decompress to gigabytes costs no more than the limit.
    """
    if encoding in {"", "identity"}:
        return await _plain(pieces, limit, held)
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return await _inflated(pieces, limit, held)
    if encoding == "zstd":
        return await _unpacked(pieces, limit, held)
    raise Refused(
        Reason.UNSUPPORTED_TYPE,
        f"Content-Encoding {encoding!r} is none of {', '.join(ENCODINGS)}",
    )


async def _plain(pieces: AsyncIterator[bytes], limit: int, held: Held) -> bytes:
    body = bytearray()
    async for piece in pieces:
        _grow(held, len(body) + len(piece), limit, len(piece))
        body += piece
    return bytes(body)


async def _inflated(pieces: AsyncIterator[bytes], limit: int, held: Held) -> bytes:
    body = bytearray()
    inflater = zlib.decompressobj(_EITHER_ZLIB_OR_GZIP)
    started = False
    try:
        async for piece in pieces:
            left = piece
            while left:
                if inflater.eof:  # a gzip file may have several members, one after another
                    inflater = zlib.decompressobj(_EITHER_ZLIB_OR_GZIP)
                started = True
                out = inflater.decompress(left, limit - len(body) + 1)
                _grow(held, len(body) + len(out), limit, len(out))
                body += out
                left = inflater.unconsumed_tail or inflater.unused_data
    except zlib.error as error:
        raise Refused(Reason.UNDECODABLE, f"the body cannot be decompressed: {error}") from error
    if started and not inflater.eof:
        raise Refused(Reason.UNDECODABLE, _CUT)
    return bytes(body)


async def _unpacked(pieces: AsyncIterator[bytes], limit: int, held: Held) -> bytes:
    """Decompress zstd; several frames follow one another."""
    body = bytearray()
    frame = zstd.ZstdDecompressor(options=_ZSTD)
    started = False
    try:
        async for piece in pieces:
            left = piece
            while left or (started and not frame.eof and not frame.needs_input):
                if frame.eof:
                    frame = zstd.ZstdDecompressor(options=_ZSTD)
                started = True
                out = frame.decompress(left, limit - len(body) + 1)
                _grow(held, len(body) + len(out), limit, len(out))
                body += out
                left = frame.unused_data if frame.eof else b""
    except zstd.ZstdError as error:
        raise Refused(Reason.UNDECODABLE, f"the body cannot be decompressed: {error}") from error
    if started and not frame.eof:
        raise Refused(Reason.UNDECODABLE, _CUT)
    return bytes(body)


def _grow(held: Held, size: int, limit: int, more: int) -> None:
    if size > limit:
        raise Refused(Reason.TOO_LARGE, f"the request is larger than {limit} bytes")
    held.grow(more)
