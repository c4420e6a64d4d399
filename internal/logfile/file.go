package logfile

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// flushEvery is how old a line gets before it is written.
	flushEvery = 100 * time.Millisecond
	// room is how many bytes of lines wait at most.
	room = 4 << 20
)

// File is a log file. Write may be called from any goroutine.
type File struct {
	path string    // empty: not a file of ours
	to   io.Writer // without a path
	log  zerolog.Logger
	lost atomic.Uint64
	full chan struct{} // cap 1: a hint that half the room is taken

	mu struct {
		sync.Mutex
		buf     []byte
		missing int // lines lost since the last flush
	}
	out struct { // Run's and Reopen's
		sync.Mutex
		f      *os.File
		broken bool // the last write failed, and that was said
	}
}

var _ io.Writer = (*File)(nil)

// Open opens the file at path for appending, and makes it if it is not there.
func Open(path string, log zerolog.Logger) (*File, error) {
	f := newFile(log)
	f.path = path
	return f, f.Reopen()
}

// To returns a File that writes to w, which nobody reopens.
func To(w io.Writer, log zerolog.Logger) *File {
	f := newFile(log)
	f.to = w
	return f
}

func newFile(log zerolog.Logger) *File { return &File{log: log, full: make(chan struct{}, 1)} }

// Reopen opens the path again, after somebody has moved the file away. An error
// leaves the old one in use.
func (f *File) Reopen() error {
	if f.path == "" {
		return nil
	}
	const mode = 0o640 // others have no business with who asked for what
	next, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, mode)
	if err != nil {
		return fmt.Errorf("logfile: %w", err)
	}
	f.flush() // what was written before belongs to the old one
	f.out.Lock()
	old := f.out.f
	f.out.f, f.out.broken = next, false
	f.out.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write takes one line. It never waits and never fails: without room the line is
// lost and counted.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.buf)+len(line) > room {
		f.mu.missing++
		f.lost.Add(1)
		return len(line), nil
	}
	f.mu.buf = append(f.mu.buf, line...)
	if len(f.mu.buf) > room/2 {
		select {
		case f.full <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// Lost returns the number of lines that were lost.
func (f *File) Lost() uint64 { return f.lost.Load() }

// Run writes what is put in until ctx ends, then the rest, and closes the file.
func (f *File) Run(ctx context.Context) {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-f.full:
		}
		f.flush()
	}
	f.Close()
}

// Close writes the rest and closes the file. Run calls it.
func (f *File) Close() {
	f.flush()
	f.out.Lock()
	defer f.out.Unlock()
	if f.out.f != nil {
		_ = f.out.f.Close() // the writes have told what there was to tell
		f.out.f = nil
	}
}

// flush writes what is in the buffer.
func (f *File) flush() {
	f.out.Lock()
	defer f.out.Unlock()
	f.mu.Lock()
	lines, missing := f.mu.buf, f.mu.missing
	f.mu.buf, f.mu.missing = nil, 0
	f.mu.Unlock()
	if missing > 0 {
		lines = append(lines, `{"lost":`+strconv.Itoa(missing)+"}\n"...)
	}
	if len(lines) == 0 {
		return
	}
	to := f.to
	if f.path != "" {
		if f.out.f == nil {
			return
		}
		to = f.out.f
	}
	_, err := to.Write(lines)
	if err != nil && !f.out.broken {
		f.log.Error().Err(err).Msg("access log not written")
	}
	f.out.broken = err != nil
}
