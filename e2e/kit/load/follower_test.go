//go:build linux

package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/e2e/kit/load"
)

// Streams end in all ways: in the middle of an event, properly, with a response without a
// stream, and by the client.
func TestFollowerResumesAfterLastEvent(t *testing.T) {
	asked := 0
	enough := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		last, _ := strconv.ParseUint(req.Header.Get("Last-Event-ID"), 10, 64)
		event := func(n uint64) { _, _ = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", n, history.EventText("k", n)) }
		asked++
		switch asked {
		case 1:
			event(last + 1)
			event(last + 2)
			_, _ = fmt.Fprintf(w, "id: %d\ndata: half", last+3)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 2:
			event(last + 1)
		case 3:
			w.Header().Set("Shardway-Error", "queue-full")
			http.Error(w, "no room", http.StatusServiceUnavailable)
		default:
			event(last + 1)
			_ = http.NewResponseController(w).Flush()
			close(enough)
			<-req.Context().Done()
		}
	}))
	defer srv.Close()
	f := load.NewFollower("f", "k", time.Millisecond)
	f.SetTargets([]string{strings.TrimPrefix(srv.URL, "http://")})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	<-enough
	cluster.Await(t, "the last event comes", func() error {
		if last := f.LastEvent(); last < 4 {
			return fmt.Errorf("it has %d", last)
		}
		return nil
	})
	first := f.TakeConns()
	cancel()
	running.Wait()
	var got []string
	for _, c := range first.Conns {
		got = append(got, fmt.Sprintf("%s: %d, %d events, ended %v, open %v, %s", c.ID, c.Status, len(c.Events), c.Ended, c.Done == 0, c.Error))
	}
	want := []string{
		"f.1: 200, 2 events, ended false, open false, ", "f.2: 200, 1 events, ended true, open false, ",
		"f.3: 503, 0 events, ended false, open false, queue-full", "f.4: 0, 1 events, ended false, open true, ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("request\n%q, want\n%q", got, want)
	}
	second := f.TakeConns()
	if first.After != 0 || second.After != 4 || len(second.Conns) != 1 || second.Conns[0].Done != 0 || len(second.Conns[0].Events) != 0 {
		t.Errorf("next result: %+v", second)
	}
}
