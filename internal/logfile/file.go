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
	// flushEvery is the interval between two writes to the file.
	flushEvery = 100 * time.Millisecond
	// bufferSize is the capacity of the buffer in bytes.
	bufferSize = 4 << 20
)

// File is a log file. Write may be called from any goroutine.
type File struct {
	path     string    // empty means that the File writes to the writer to
	writer   io.Writer // used if path is empty
	log      zerolog.Logger
	lost     atomic.Uint64
	halfFull chan struct{} // capacity 1; wakes Run when half of the buffer is used

	mu struct {
		sync.Mutex
		buf     []byte
		missing int // lines lost since the last flush
	}
	output struct { // used by Run, Reopen and Close
		sync.Mutex
		f      *os.File
		broken bool // the last write failed, and the failure was logged
	}
}

var _ io.Writer = (*File)(nil)

// Open opens the file at path for appending. It creates the file if it does not exist.
func Open(path string, log zerolog.Logger) (*File, error) {
	f := newFile(log)
	f.path = path
	return f, f.Reopen()
}

// ToWriter returns a File that writes to w. Reopen has no effect on it.
func ToWriter(w io.Writer, log zerolog.Logger) *File {
	f := newFile(log)
	f.writer = w
	return f
}

func newFile(log zerolog.Logger) *File { return &File{log: log, halfFull: make(chan struct{}, 1)} }

// Reopen opens the path again, for example after log rotation has renamed the file. After
// an error, the old file remains in use.
func (f *File) Reopen() error {
	if f.path == "" {
		return nil
	}
	const mode = 0o640 // the access log shows who requested what, so other users must not read it
	reopened, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, mode)
	if err != nil {
		return fmt.Errorf("logfile: %w", err)
	}
	f.flush() // already buffered lines belong in the old file
	f.output.Lock()
	old := f.output.f
	f.output.f, f.output.broken = reopened, false
	f.output.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write appends one line to the buffer. It never blocks and never fails. If the buffer is
// full, the line is dropped and counted.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.buf)+len(line) > bufferSize {
		f.mu.missing++
		f.lost.Add(1)
		return len(line), nil
	}
	f.mu.buf = append(f.mu.buf, line...)
	if len(f.mu.buf) > bufferSize/2 {
		select {
		case f.halfFull <- struct{}{}:
		default:
		}
	}
	return len(line), nil
}

// Lost returns the total number of dropped lines.
func (f *File) Lost() uint64 { return f.lost.Load() }

// Run writes the buffered lines until ctx ends. Then it writes the remaining lines and
// closes the file.
func (f *File) Run(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-f.halfFull:
		}
		f.flush()
	}
	f.Close()
}

// Close writes the remaining lines and closes the file. Run calls it when ctx ends.
func (f *File) Close() {
	f.flush()
	f.output.Lock()
	defer f.output.Unlock()
	if f.output.f != nil {
		_ = f.output.f.Close() // failed writes have already been logged
		f.output.f = nil
	}
}

// flush writes the buffered lines, and the number of lines dropped since the last flush.
func (f *File) flush() {
	f.output.Lock()
	defer f.output.Unlock()
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
	dest := f.writer
	if f.path != "" {
		if f.output.f == nil {
			return
		}
		dest = f.output.f
	}
	_, err := dest.Write(lines)
	if err != nil && !f.output.broken {
		f.log.Error().Err(err).Msg("access log not written")
	}
	f.output.broken = err != nil
}
