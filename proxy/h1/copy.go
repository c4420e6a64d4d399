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
		moved, rerr, werr := w.splice(b)
		if n += moved; rerr != nil || werr != nil {
			return n, rerr, werr
		}
		dst, err := w.freeSpace(w.wantedSpace(b))
		if err != nil {
			return n, nil, err
		}
		copied, rerr, werr := w.copyAvailable(b, dst)
		n += int64(copied)
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil || werr != nil {
			return n, rerr, werr
		}
	}
	return n, nil, nil
}

// wantedSpace returns the number of bytes of buffer that are useful for the rest of b, or for the
// data that must be copied before splice can continue.
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

// copyAvailable moves available data of b into dst, which must have at least one byte. If no data
// is available, copyAvailable sends the buffered data, or waits for more data.
func (w *Writer) copyAvailable(b *Body, dst []byte) (n int, rerr, werr error) {
	n, rerr = b.copyBuffered(dst)
	if n > 0 && n < len(dst) && b.in.filledBuffer && errors.Is(rerr, errNeedMore) {
		// The last read has filled its buffer, so more data may be available without waiting.
		var more int
		more, rerr = b.readFromConn(dst[n:], false)
		n += more
	}
	if n == 0 && errors.Is(rerr, errNeedMore) {
		if w.buffered > 0 {
			return 0, nil, w.Flush()
		}
		if n, rerr = b.readSoon(dst); n == 0 && errors.Is(rerr, errNeedMore) {
			w.releaseEmptyBuffer() // dst is part of this buffer, so it is not valid any more
			return 0, b.AwaitData(), nil
		}
	}
	if errors.Is(rerr, errNeedMore) {
		rerr = nil
	}
	if w.kind == NoBody && n > 0 || w.kind == Length && int64(n) > w.remaining {
		return 0, nil, ErrOverrun
	}
	w.commit(n)
	return n, rerr, nil
}

// copyBuffered copies buffered data of b into dst, across chunk boundaries. It returns without an
// error when dst is full. Otherwise it returns the number of copied bytes, and the reason why there
// are no more: errNeedMore if no data is buffered any more, io.EOF at the end of the body, or the
// error of a malformed body.
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
