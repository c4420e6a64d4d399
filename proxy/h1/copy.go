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
		room, err := w.space(w.wanted(b))
		if err != nil {
			return n, nil, err
		}
		m, rerr, werr := w.take(b, room)
		n += int64(m)
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil || werr != nil {
			return n, rerr, werr
		}
	}
	return n, nil, nil
}

// wanted returns how much space is useful for the rest of b, or for the data that must be copied
// before splice can continue.
func (w *Writer) wanted(b *Body) int {
	if have := b.in.buffered(); have > 0 && w.splices(b) {
		return min(have, streamBuffer)
	}
	if b.kind == Length && b.left < streamBuffer {
		return int(b.left)
	}
	if b.kind == Chunked && b.in.buffered() < minDirectRead {
		return minDirectRead
	}
	return streamBuffer
}

// take moves available data of b into room, which must have at least one byte. If no data is
// available, take sends the buffered data, or waits for more data.
func (w *Writer) take(b *Body, room []byte) (n int, rerr, werr error) {
	n, rerr = b.takeAll(room)
	if n > 0 && n < len(room) && b.in.filledBuffer && errors.Is(rerr, errNeedMore) {
		// The last read has filled its buffer, so more data may be available without waiting.
		var m int
		m, rerr = b.pull(room[n:], false)
		n += m
	}
	if n == 0 && errors.Is(rerr, errNeedMore) {
		if w.n > 0 {
			return 0, nil, w.Flush()
		}
		if n, rerr = b.pullSoon(room); n == 0 && errors.Is(rerr, errNeedMore) {
			w.release() // room is part of this buffer, so it is not valid any more
			return 0, b.Await(), nil
		}
	}
	if errors.Is(rerr, errNeedMore) {
		rerr = nil
	}
	if w.kind == NoBody && n > 0 || w.kind == Length && int64(n) > w.left {
		return 0, nil, ErrOverrun
	}
	w.commit(n)
	return n, rerr, nil
}

// takeAll moves buffered data of b into room, across chunk boundaries, until the data or room is
// used up.
func (b *Body) takeAll(room []byte) (int, error) {
	n := 0
	for n < len(room) {
		m, err := b.takeBuffered(room[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
