package h1

import (
	"errors"
	"io"
)

// Copy copies b to the body that w writes, as it comes: what is there is put
// together, and sent as soon as the source has no more for now; a long answer goes
// from socket to socket within the kernel. It ends when b is done, and leaves the
// end of the message to Close. rerr is a failure of the source, werr one of the
// destination; n counts the bytes taken.
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

// wanted returns how much room is of use for the rest of b, or for what comes before
// splice goes on.
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

// take moves what of b is there into room, of which there is at least one
// byte. When nothing is, it sends what is buffered and waits for more.
func (w *Writer) take(b *Body, room []byte) (n int, rerr, werr error) {
	n, rerr = b.takeAll(room)
	if n > 0 && n < len(room) && b.in.filledBuffer && errors.Is(rerr, errNeedMore) {
		// The last read filled its buffer: more may be there, at no wait.
		var m int
		m, rerr = b.pull(room[n:], false)
		n += m
	}
	if n == 0 && errors.Is(rerr, errNeedMore) {
		if w.n > 0 {
			return 0, nil, w.Flush()
		}
		if n, rerr = b.pullSoon(room); n == 0 && errors.Is(rerr, errNeedMore) {
			w.release() // room is no more
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

// takeAll takes what is buffered of b, over chunk borders, as much as room
// holds.
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
