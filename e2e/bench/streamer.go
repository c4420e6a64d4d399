//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// streamDirection is the activity of an additional client during the measured requests.
type streamDirection uint8

const (
	streamReads  streamDirection = iota + 1 // it reads long responses
	streamWrites                            // it sends long request bodies
)

const (
	// streamRate is the rate of the additional client in bytes per second. streamPart is the
	// number of bytes of each of its reads and writes.
	streamRate = 10_000_000
	streamPart = 64 << 10
	// streamBody is the length of each body. Each has its own path, so no proxy can
	// predict the length of its response.
	streamBody = 8 << 20
)

// String returns the suffix that the activity adds to the name of a case.
func (s streamDirection) String() string {
	switch s {
	case streamReads:
		return "10 MB/s read beside"
	case streamWrites:
		return "10 MB/s sent beside"
	}
	return fmt.Sprintf("stream(%d)", uint8(s))
}

// streamer is a client that reads or sends successive bodies at a constant rate over one
// connection.
type streamer struct {
	direction   streamDirection
	target      string
	key         string
	transferred int64 // bytes; only its goroutine may use it
}

// begin starts the client. stop stops it, waits for its goroutine, and returns the error
// with which it failed before, if any.
func (s *streamer) begin(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var err error
	running.Go(func() { err = s.run(ctx) })
	return func() error {
		cancel()
		running.Wait()
		return err
	}
}

// run sends requests over one connection until ctx ends.
func (s *streamer) run(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.target)
	if err != nil {
		return fmt.Errorf("bench: the client beside: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	limiter := &rateLimiter{ctx: ctx, start: time.Now(), streamer: s}
	reader := bufio.NewReaderSize(conn, streamPart)
	for i := 0; ; i++ {
		if err := s.exchange(conn, reader, limiter, i); err != nil {
			if ctx.Err() != nil {
				return nil // stop was called
			}
			return fmt.Errorf("bench: the client beside, after %d bytes: %w", s.transferred, err)
		}
	}
}

// exchange sends request i and reads its response. One of the two has a body of
// streamBody bytes.
func (s *streamer) exchange(conn net.Conn, reader *bufio.Reader, limiter *rateLimiter, i int) error {
	method, requestLength, responseLength := http.MethodGet, 0, streamBody
	if s.direction == streamWrites {
		method, requestLength, responseLength = http.MethodPost, streamBody, smallBody
	}
	if _, err := fmt.Fprintf(conn, "%s /%d/%d HTTP/1.1\r\nHost: bench\r\nX-Shard-Key: %s\r\nContent-Length: %d\r\n\r\n", method, responseLength, i, s.key, requestLength); err != nil {
		return err
	}
	if err := sendBody(conn, limiter, requestLength); err != nil {
		return err
	}
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	if s.direction == streamWrites {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	return readBody(resp.Body, limiter)
}

// sendBody sends length bytes at the rate of the limiter.
func sendBody(conn net.Conn, limiter *rateLimiter, length int) error {
	part := make([]byte, streamPart)
	for remaining := length; remaining > 0; {
		n, err := conn.Write(part[:min(remaining, len(part))])
		if err != nil {
			return err
		}
		if err := limiter.wait(n); err != nil {
			return err
		}
		remaining -= n
	}
	return nil
}

// readBody reads a body to its end, at the rate of the limiter.
func readBody(body io.Reader, limiter *rateLimiter) error {
	part := make([]byte, streamPart)
	for {
		n, err := io.ReadFull(body, part)
		isLastPart := errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !isLastPart:
			return err
		}
		if err := limiter.wait(n); err != nil {
			return err
		}
	}
}

// rateLimiter limits the rate of a streamer to streamRate.
type rateLimiter struct {
	ctx      context.Context //nolint:containedctx // of one run
	start    time.Time
	streamer *streamer
}

// wait adds n bytes to the transferred bytes, and returns when the next bytes are due. A
// delay of more than 100 ms moves all later due times, so that no burst follows it.
func (l *rateLimiter) wait(n int) error {
	const maxDelay = 100 * time.Millisecond
	l.streamer.transferred += int64(n)
	dueAt := l.start.Add(time.Duration(l.streamer.transferred) * time.Second / streamRate)
	delay := time.Since(dueAt)
	if delay > maxDelay {
		l.start = l.start.Add(delay)
	}
	return sleep(l.ctx, -delay)
}

// measureWithStream repeats the measurement of load together with an additional client, which
// uses the first key of load. alone is the result without this client.
func (s *setup) measureWithStream(ctx context.Context, load wrkRun, alone result) (result, error) {
	text, err := os.ReadFile(load.keys)
	if err != nil {
		return result{}, fmt.Errorf("bench: %w", err)
	}
	key, _, _ := strings.Cut(string(text), "\n")
	client := &streamer{direction: load.testCase.stream, target: load.target, key: key}
	withClient := *s
	withClient.startActivity = client.begin
	start := time.Now()
	measured, err := withClient.measure(ctx, load)
	measured.p99Alone, measured.streamRate = alone.p99, float64(client.transferred)/time.Since(start).Seconds()
	return measured, err
}
