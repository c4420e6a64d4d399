package h1

import (
	"errors"
	"io"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// minSplicedBytes is the minimum number of body bytes that must still arrive for a response, or
	// a chunk of it, to be spliced. It is less than 1 MiB because part of a response of that size
	// may have arrived with its header.
	minSplicedBytes = 512 << 10
	// copiedTail is how many bytes at the end of a body of known length are copied instead of
	// spliced. The callers of Copy expect the last bytes of a body in the buffer.
	copiedTail = streamBuffer
)

// splice lets the kernel move a part of a response from socket to socket, without copying it to
// this process. For a body of known length, that is everything except the end. For a chunked body,
// it is the rest of the current chunk, which becomes one chunk. splice does nothing if buffered
// data must be sent first, if canSplice returns false, or if no pipe is available. The results are
// those of Copy.
func (w *Writer) splice(b *Body) (n int64, rerr, werr error) {
	if b.in.buffered() > 0 || !w.canSplice(b) {
		return 0, nil, nil
	}
	p := w.pool.pipes.get()
	if p == nil {
		return 0, nil, nil
	}
	defer w.pool.pipes.put(p)
	if err := w.Flush(); err != nil {
		return 0, nil, err
	}
	w.releaseEmptyBuffer()
	b.in.releaseEmptyBuffer()
	w.pool.addInUse(pipeBytes)
	defer w.pool.addInUse(-pipeBytes)
	size := b.remaining
	if b.kind == Length {
		size -= copiedTail
	}
	return w.spliceAll(b, p, size)
}

// canSplice reports whether the unbuffered rest of the body, or of its current chunk, can be moved
// from socket to socket, and has at least minSplicedBytes. A shorter rest is cheaper to copy.
func (w *Writer) canSplice(b *Body) bool {
	if !b.isResponse || b.state != inData || b.in.sock == nil {
		return false
	}
	if w.sock == nil || w.pool == nil || w.err != nil {
		return false
	}
	unbuffered := b.remaining - int64(b.in.buffered())
	if unbuffered < minSplicedBytes {
		return false
	}
	fitsDeclaredLength := w.kind == Length && b.remaining <= w.remaining
	return fitsDeclaredLength || w.kind == Chunked || w.kind == UntilClose
}

// spliceAll splices size bytes of the body, in as many steps as the pipe needs. rerr is an error of
// the source, and werr an error of the destination. If the kernel does not support splice, which
// only the first call shows, spliceAll returns zero, and the caller copies the body.
func (w *Writer) spliceAll(b *Body, p *pipe, size int64) (n int64, rerr, werr error) {
	for n < size {
		if err := b.splice(p, size-n); err != nil {
			if n == 0 && isSpliceUnsupported(err) {
				w.pool.pipes.disabled.Store(true)
				b.err = nil
				return 0, nil, nil
			}
			return n, err, nil
		}
		if n == 0 && w.kind == Chunked {
			// Not before the first call: after a fallback, the copy writes its own chunk header.
			w.beginChunk(size)
		}
		n += int64(p.buffered)
		if err := w.drain(p); err != nil {
			return n, nil, err
		}
	}
	if w.kind == Chunked {
		w.PutString("\r\n")
	}
	return n, nil, nil
}

// isSpliceUnsupported reports whether err means that the kernel or a system call filter does not
// permit splice.
func isSpliceUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}

// splice waits for data, and moves up to maxBytes of the body into p.
func (b *Body) splice(p *pipe, maxBytes int64) error {
	waitStart, err := b.startWait()
	if err != nil {
		return b.fail(err)
	}
	b.readStarted = true
	n, err := p.fillFrom(b.in.sock, int(min(maxBytes, pipeBytes)))
	b.addWaitTime(waitStart)
	if n > 0 {
		b.in.received += int64(n)
		return b.recordConsumed(n) // fails if the body exceeds its limit
	}
	if !errors.Is(err, io.EOF) {
		err = b.in.interruptError(err) // ErrStopped or ErrPaused, if the wait was interrupted
	}
	return b.handleReadError(err)
}

// beginChunk appends the first line of a chunk to the buffer.
func (w *Writer) beginChunk(size int64) {
	var digits [16]byte
	w.Put(strconv.AppendInt(digits[:0], size, 16))
	w.PutString("\r\n")
}

// drain sends the buffered data, and then the content of p. p never contains more than the declared length of the body
// allows, because canSplice has compared the two.
func (w *Writer) drain(p *pipe) error {
	if err := w.Flush(); err != nil {
		return err
	}
	limit, err := w.checkPrecondition() // limit is the time that the write may wait
	if err != nil {
		return err
	}
	n, err := p.drainTo(w.sock, limit)
	w.sent += int64(n)
	if w.kind == Length {
		w.remaining -= int64(n)
	}
	if w.pool.BytesSpliced != nil {
		w.pool.BytesSpliced.Add(int64(n))
	}
	w.err = err
	return err
}
