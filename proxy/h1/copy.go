package h1

import (
	"errors"
	"io"
)

// Copy copies the body b to the body that w writes. It collects the data that has arrived, and
// sends it as soon as the source has no more data. On Linux, the kernel moves the data of a long
// response from socket to socket. Copy returns at the end of b; the caller then ends the message
// with Close. rerr is an error of the source, and werr an error of the destination. n is the number
// of copied bytes.
func (w *Writer) Copy(b *Body) (n int64, rerr, werr error) {
	for b.state != atEnd {
		spliced, rerr, werr := w.splice(b)
		n += spliced
		if rerr != nil || werr != nil {
			return n, rerr, werr
		}
		dst, err := w.freeSpace(w.wantedSpace(b))
		if err != nil {
			return n, nil, err
		}
		copied, rerr, werr := w.copyAvailable(b, dst)
		n += int64(copied)
		if errors.Is(rerr, io.EOF) {
			return n, nil, nil
		}
		if rerr != nil || werr != nil {
			return n, rerr, werr
		}
	}
	return n, nil, nil
}

// wantedSpace returns how much buffer is useful for the rest of b, or for the data that must be
// copied before splice can continue.
func (w *Writer) wantedSpace(b *Body) int {
	if buffered := b.in.buffered(); buffered > 0 && w.canSplice(b) {
		return min(buffered, streamBuffer)
	}
	if b.kind == Length && b.remaining < streamBuffer {
		return int(b.remaining)
	}
	if b.kind == Chunked && b.in.buffered() < minDirectRead {
		return minDirectRead
	}
	return streamBuffer
}

// copyAvailable moves available data of b into dst, which must be a non-empty part of the buffer of
// w. If no data is available, it sends the buffered data. If there is none, it waits for more data.
// In both cases it returns zero, and the caller must call it again with a new dst.
func (w *Writer) copyAvailable(b *Body, dst []byte) (n int, rerr, werr error) {
	n, rerr = b.readAvailable(dst)
	if n == 0 && errors.Is(rerr, errNeedMore) {
		if w.buffered > 0 {
			return 0, nil, w.Flush()
		}
		n, rerr = b.readSoon(dst)
		if n == 0 && errors.Is(rerr, errNeedMore) {
			w.releaseEmptyBuffer() // dst is part of this buffer, so it is no longer valid
			return 0, b.AwaitData(), nil
		}
	}
	if errors.Is(rerr, errNeedMore) {
		rerr = nil
	}
	if w.exceedsBody(n) {
		return 0, nil, ErrOverrun
	}
	w.commit(n)
	return n, rerr, nil
}

// readAvailable copies the buffered data of b into dst. If the last read has filled its buffer, more
// data may be available without waiting, so readAvailable also reads once from the connection. The
// results are those of copyBuffered.
func (b *Body) readAvailable(dst []byte) (int, error) {
	n, err := b.copyBuffered(dst)
	bufferUsedUp := n > 0 && n < len(dst) && errors.Is(err, errNeedMore)
	if !bufferUsedUp || !b.in.filledBuffer {
		return n, err
	}
	more, err := b.readNonblocking(dst[n:])
	return n + more, err
}

// copyBuffered copies buffered data of b into dst, across chunk boundaries. It returns without an
// error when dst is full. Otherwise it returns the number of copied bytes, and why there are no
// more: errNeedMore if the buffer is empty, io.EOF at the end of the body, or the error of a
// malformed body.
func (b *Body) copyBuffered(dst []byte) (int, error) {
	n := 0
	for n < len(dst) {
		copied, err := b.readBuffered(dst[n:])
		n += copied
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
