//go:build linux

package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"shardway/e2e/kit/history"
)

// Follower is a client that reads the event stream of a key. Like EventSource in a browser, it
// reconnects when the stream ends, and sends the ID of the last complete event.
type Follower struct {
	name, key string
	interval  time.Duration

	// mu protects the following fields.
	mu         sync.Mutex
	targets    []string
	nextTarget int
	connCount  int                  // number of all connections so far
	lastTaken  uint64               // ID of the last event that TakeConns has returned
	lastEvent  uint64               // ID of the last received event
	conns      []history.FollowConn // not returned by TakeConns yet; only the last one may be open
}

// NewFollower returns a follower with a unique name, for events with this interval.
func NewFollower(name, key string, interval time.Duration) *Follower {
	return &Follower{name: name, key: key, interval: interval}
}

// SetTargets replaces the addresses to which the client connects, in turn.
func (f *Follower) SetTargets(targets []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets = targets
}

// LastEvent returns the ID of the last received event.
func (f *Follower) LastEvent() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lastEvent
}

// TakeConns returns the connections and events since the last call. An open connection is also
// part of the next result.
func (f *Follower) TakeConns() history.Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := history.Follower{Name: f.name, Key: f.key, After: f.lastTaken, Conns: f.conns}
	f.lastTaken, f.conns = f.lastEvent, nil
	if n := len(all.Conns); n > 0 && all.Conns[n-1].Done == 0 {
		open := all.Conns[n-1]
		open.Events = nil
		f.conns = []history.FollowConn{open}
	}
	return all
}

// Run follows the stream until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	for ctx.Err() == nil {
		target, req := f.beginConn()
		status, err := f.readStream(ctx, target, req)
		if ctx.Err() != nil {
			return // the stream ends with its client
		}
		f.endConn(status, err)
		wait(ctx, retryDelay)
	}
}

// beginConn records a new connection, and returns its target and its request.
func (f *Follower) beginConn() (target string, req Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nextTarget++
	f.connCount++
	conn := history.FollowConn{ID: fmt.Sprintf("%s.%d", f.name, f.connCount), Target: f.targets[f.nextTarget%len(f.targets)], Sent: history.Now()}
	f.conns = append(f.conns, conn)
	req = Request{ID: conn.ID, Key: f.key, Header: map[string]string{"App-Feed": f.interval.String(), "Accept": "text/event-stream"}}
	if f.lastEvent > 0 {
		req.Header["Last-Event-ID"] = strconv.FormatUint(f.lastEvent, 10)
	}
	return conn.Target, req.withDefaults()
}

// responseError is a response without a stream.
type responseError struct{ code, detail string }

func (a responseError) Error() string { return a.code + " " + a.detail }

// readStream reads a stream to its end. nil means that it ended properly.
func (f *Follower) readStream(ctx context.Context, target string, req Request) (status int, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	if _, err = conn.Write(req.encode(target)); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		var start prefixBuffer
		_, _ = io.Copy(&start, response.Body)
		return response.StatusCode, responseError{response.Header.Get("Shardway-Error"), string(start)}
	}
	return response.StatusCode, f.readEvents(response.Body)
}

// readEvents records events as they arrive. It ignores an incomplete event at the end.
func (f *Follower) readEvents(body io.Reader) error {
	var event history.Event
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			event.ID, _ = strconv.ParseUint(value, 10, 64) // history.Check detects a zero
		case "data":
			event.Text = value
		case "":
			f.addEvent(event)
			event = history.Event{ID: event.ID}
		}
	}
}

func (f *Follower) addEvent(event history.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conn := &f.conns[len(f.conns)-1]
	conn.LastEvent = history.Now()
	conn.Events = append(conn.Events, event)
	f.lastEvent = event.ID
}

// endConn records the end of the connection.
func (f *Follower) endConn(status int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conn := &f.conns[len(f.conns)-1]
	conn.Status, conn.Done, conn.Ended = status, history.Now(), err == nil
	var rejected responseError
	switch {
	case errors.As(err, &rejected):
		conn.Error, conn.Detail = rejected.code, rejected.detail
	case err != nil:
		conn.Err, conn.Refused = err.Error(), status == 0 && isRefused(err)
	}
}
