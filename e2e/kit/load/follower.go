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

// Follower is a client that follows the events of a key and comes back whenever its stream
// ends, as EventSource does: with the id of the last event that came whole.
type Follower struct {
	name, key string
	every     time.Duration

	mu      sync.Mutex
	targets []string
	next    int
	conns   int
	taken   uint64 // the last event that Take has returned
	last    uint64
	follows []history.Follow // not taken yet; only the last one may be open
}

// NewFollower makes one of a name that no other has, for events that come every so often.
func NewFollower(name, key string, every time.Duration) *Follower {
	return &Follower{name: name, key: key, every: every}
}

// SetTargets replaces the addresses that it comes back to, in turn.
func (f *Follower) SetTargets(targets []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets = targets
}

// Last is the last event that came.
func (f *Follower) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Take returns what came since it was called before. A connection that is open is in what
// it returns next, too.
func (f *Follower) Take() history.Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := history.Follower{Name: f.name, Key: f.key, After: f.taken, Follows: f.follows}
	f.taken, f.follows = f.last, nil
	if n := len(all.Follows); n > 0 && all.Follows[n-1].Done == 0 {
		open := all.Follows[n-1]
		open.Events = nil
		f.follows = []history.Follow{open}
	}
	return all
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	for ctx.Err() == nil {
		target, r := f.begin()
		status, err := f.follow(ctx, target, r)
		if ctx.Err() != nil {
			return // it is open as long as its client wants it
		}
		f.end(status, err)
		wait(ctx, patience)
	}
}

// begin notes another connection, and returns whom it asks, and for what.
func (f *Follower) begin() (target string, r Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	f.conns++
	c := history.Follow{ID: fmt.Sprintf("%s.%d", f.name, f.conns), Target: f.targets[f.next%len(f.targets)], Sent: history.Now()}
	f.follows = append(f.follows, c)
	r = Request{ID: c.ID, Key: f.key, Header: map[string]string{"App-Feed": f.every.String(), "Accept": "text/event-stream"}}
	if f.last > 0 {
		r.Header["Last-Event-ID"] = strconv.FormatUint(f.last, 10)
	}
	return c.Target, r.normal()
}

// answered is an answer that is no stream.
type answered struct{ code, detail string }

func (a answered) Error() string { return a.code + " " + a.detail }

// follow reads a stream to its end; nil says that it was a proper one.
func (f *Follower) follow(ctx context.Context, target string, r Request) (status int, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	if _, err = conn.Write(r.encode(target)); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		var start prefix
		_, _ = io.Copy(&start, res.Body)
		return res.StatusCode, answered{res.Header.Get("Shardway-Error"), string(start)}
	}
	return res.StatusCode, f.read(res.Body)
}

// read notes events as they come. What is not whole at the end is none.
func (f *Follower) read(body io.Reader) error {
	var e history.Event
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
			e.ID, _ = strconv.ParseUint(value, 10, 64) // zero is judged
		case "data":
			e.Text = value
		case "":
			f.got(e)
			e = history.Event{ID: e.ID}
		}
	}
}

func (f *Follower) got(e history.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.follows[len(f.follows)-1]
	c.Last = history.Now()
	c.Events = append(c.Events, e)
	f.last = e.ID
}

// end notes how the connection ended.
func (f *Follower) end(status int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.follows[len(f.follows)-1]
	c.Status, c.Done, c.Ended = status, history.Now(), err == nil
	var a answered
	switch {
	case errors.As(err, &a):
		c.Error, c.Detail = a.code, a.detail
	case err != nil:
		c.Err, c.Refused = err.Error(), status == 0 && nobodyListens(err)
	}
}
