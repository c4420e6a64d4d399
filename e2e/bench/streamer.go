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

// stream is the activity of an additional client during the measured requests.
type stream uint8

const (
	streamReads  stream = iota + 1 // it reads long responses
	streamWrites                   // it sends long request bodies
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
func (s stream) String() string {
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
	does   stream
	target string
	key    string
	moved  int64 // bytes; only its goroutine may use it
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

func (s *streamer) run(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.target)
	if err != nil {
		return fmt.Errorf("bench: the client beside: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	p := &pacer{ctx: ctx, began: time.Now(), s: s}
	from := bufio.NewReaderSize(conn, streamPart)
	for i := 0; ; i++ {
		if err := s.exchange(conn, from, p, i); err != nil {
			if ctx.Err() != nil {
				return nil // stop was called
			}
			return fmt.Errorf("bench: the client beside, after %d bytes: %w", s.moved, err)
		}
	}
}

// exchange sends request i and reads its response. One of the two has a body of
// streamBody bytes.
func (s *streamer) exchange(conn net.Conn, from *bufio.Reader, p *pacer, i int) error {
	length, path, method := 0, fmt.Sprintf("/%d/%d", streamBody, i), http.MethodGet
	if s.does == streamWrites {
		length, path, method = streamBody, fmt.Sprintf("/%d/%d", smallAnswer, i), http.MethodPost
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: bench\r\nX-Shard-Key: %s\r\nContent-Length: %d\r\n\r\n", method, path, s.key, length); err != nil {
		return err
	}
	part := make([]byte, streamPart)
	for left := length; left > 0; {
		n, err := conn.Write(part[:min(left, len(part))])
		if err == nil {
			err = p.pass(n)
		}
		if err != nil {
			return err
		}
		left -= n
	}
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	if s.does == streamWrites {
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for {
		n, err := io.ReadFull(resp.Body, part)
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
			return err
		}
		if err := p.pass(n); err != nil {
			return err
		}
	}
}

// pacer limits the rate of a streamer to streamRate.
type pacer struct {
	ctx   context.Context //nolint:containedctx // of one run
	began time.Time
	s     *streamer
}

// pass adds n bytes to the transferred bytes, and returns when the next bytes are due. A
// delay of more than 100 ms moves all later due times, so that no burst follows it.
func (p *pacer) pass(n int) error {
	p.s.moved += int64(n)
	due := p.began.Add(time.Duration(p.s.moved) * time.Second / streamRate)
	wait := time.Until(due)
	if wait < -time.Second/10 {
		p.began = p.began.Add(-wait)
	}
	return pass(p.ctx, wait)
}

// measureWithStream repeats the measurement of w together with an additional client, which uses the
// first key of w. alone is the result without this client.
func (l *line) measureWithStream(ctx context.Context, load wrk, alone result) (result, error) {
	text, err := os.ReadFile(load.keys)
	if err != nil {
		return result{}, fmt.Errorf("bench: %w", err)
	}
	key, _, _ := strings.Cut(string(text), "\n")
	s := &streamer{does: load.c.beside, target: load.target, key: key}
	with := *l
	with.during = s.begin
	began := time.Now()
	measured, err := with.measure(ctx, load)
	measured.alone, measured.streamed = alone.p99, float64(s.moved)/time.Since(began).Seconds()
	return measured, err
}
