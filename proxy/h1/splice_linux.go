package h1

import (
	"errors"
	"io"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// splicedFrom is how much of the body of an answer, or of a chunk of it, has to be to
	// come for it to be spliced. Of 1 MiB some 64 KiB may have come with the head.
	splicedFrom = 512 << 10
	// endCopied is how much of the end of a body of known length is copied all the same:
	// its last bytes are in the buffer when Copy returns, as those of any other.
	endCopied = streamBuffer
)

// splice has the kernel move what comes next of an answer from socket to socket: of a
// body of known length all but its end, else one chunk, which becomes one. It does so
// where splices says so and what was read before has been taken. Else, or where there is
// no pipe, it does nothing. The results are those of Copy.
func (w *Writer) splice(b *Body) (n int64, rerr, werr error) {
	if b.in.buffered() > 0 || !w.splices(b) {
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
	w.release()
	b.in.release()
	w.pool.lend(pipeBytes)
	defer w.pool.lend(-pipeBytes)
	size := b.left
	if b.kind == Length {
		size -= endCopied
	}
	return w.spliceAll(b, p, size)
}

// splices reports whether what comes next of b can be spliced, and is long enough: once
// what was read before has been taken.
func (w *Writer) splices(b *Body) bool {
	if !b.isResponse || b.state != inData || b.left-int64(b.in.buffered()) < splicedFrom || b.in.sock == nil {
		return false
	}
	if w.sock == nil || w.pool == nil || w.err != nil {
		return false
	}
	return w.kind == Chunked || w.kind == UntilClose || w.kind == Length && b.left <= w.left
}

// spliceAll splices size bytes of data.
func (w *Writer) spliceAll(b *Body, p *pipe, size int64) (n int64, rerr, werr error) {
	for n < size {
		if err := b.splice(p, size-n); err != nil {
			if n == 0 && unspliced(err) {
				w.pool.pipes.refused.Store(true)
				b.err = nil
				return 0, nil, nil
			}
			return n, err, nil
		}
		if n == 0 && w.kind == Chunked {
			w.beginChunk(size)
		}
		n += int64(p.held)
		if err := w.drain(p); err != nil {
			return n, nil, err
		}
	}
	if w.kind == Chunked {
		w.PutString("\r\n")
	}
	return n, nil, nil
}

// unspliced tells that the kernel does not splice, or a filter of system calls.
func unspliced(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}

// splice waits for data, and moves up to most bytes of it into p.
func (b *Body) splice(p *pipe, most int64) error {
	began, err := b.arm()
	if err != nil {
		return b.fail(err)
	}
	b.started = true
	n, err := p.fillFrom(b.in.sock, int(min(most, pipeBytes)))
	b.addWait(began)
	if n > 0 {
		b.in.received += int64(n)
		return b.consumed(n)
	}
	if !errors.Is(err, io.EOF) {
		err = b.in.stopped(err)
	}
	return b.ended(err)
}

// beginChunk puts the first line of a chunk behind what is buffered.
func (w *Writer) beginChunk(size int64) {
	var digits [16]byte
	w.Put(strconv.AppendInt(digits[:0], size, 16))
	w.PutString("\r\n")
}

// drain sends what p holds, after what is buffered.
func (w *Writer) drain(p *pipe) error {
	if err := w.Flush(); err != nil {
		return err
	}
	limit, err := w.limit()
	if err != nil {
		return err
	}
	n, err := p.drainTo(w.sock, limit)
	w.sent += int64(n)
	if w.kind == Length {
		w.left -= int64(n)
	}
	if w.pool.Spliced != nil {
		w.pool.Spliced.Add(int64(n))
	}
	w.err = err
	return err
}
