package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/admin"
	"shardway/admin/api"
)

// leaver is a node whose drain status is set by the test.
type leaver struct {
	state atomic.Pointer[api.DrainState]
}

func (l *leaver) Ready() error              { return nil }
func (l *leaver) SelfState() api.DrainState { return *l.state.Load() }

// The app of a node is told to stop when this endpoint responds. It responds only after the drain was
// requested and nothing is left on the node, or at once if no other node can take over.
func TestDrainedAnswersWhenNothingIsLeft(t *testing.T) {
	for name, last := range map[string]struct {
		state api.DrainState
		wait  string
		want  int
		says  string
	}{
		"nothing is left":   {api.DrainState{Requested: true}, "4h", 200, "ok"},
		"nobody takes it":   {api.DrainState{Requested: true, Shards: 3, BlockedBy: "there is no other node"}, "4h", 503, "there is no other node"},
		"the client leaves": {api.DrainState{Requested: true, Shards: 3}, "4h", 503, "not drained yet"},
		"it takes too long": {api.DrainState{Requested: true, Shards: 3}, "10800500ms", 503, "not drained yet"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leaver{}
				l.state.Store(&api.DrainState{})
				h := admin.ProbeHandler(l)
				ctx, leave := context.WithCancel(t.Context())
				w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/drained?wait="+last.wait, nil))
				}()
				for _, s := range []api.DrainState{{Requested: true, Shards: 3, Requests: 1}, {Requested: true, Requests: 1}, {Requested: true, Sockets: 1}} {
					time.Sleep(time.Hour)
					select {
					case <-ended:
						t.Fatalf("answered %d before %+v", w.Code, s)
					default:
					}
					l.state.Store(&s)
				}
				l.state.Store(&last.state)
				time.Sleep(time.Second)
				leave()
				<-ended
				if w.Code != last.want || !strings.Contains(w.Body.String(), last.says) {
					t.Errorf("%d %s, want %d with %q", w.Code, w.Body, last.want, last.says)
				}
			})
		})
	}
}

// The endpoint needs no token, so only a limited number of requests may wait. A client that occupies
// all places for its address takes none from the process that stops the app.
func TestDrainWaitersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaver{}
		l.state.Store(&api.DrainState{})
		h := admin.ProbeHandler(l)
		ask := func(from string) int {
			w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/drained", nil)
			r.RemoteAddr = from
			h.ServeHTTP(w, r)
			return w.Code
		}
		answers := make(chan int, 16+240)
		for range 16 {
			go func() { answers <- ask("10.0.0.1:1") }()
		}
		synctest.Wait()
		if got := ask("10.0.0.1:2"); got != 503 {
			t.Errorf("one more from there is answered %d", got)
		}
		for i := range 240 {
			go func() { answers <- ask(fmt.Sprintf("10.0.1.%d:1", i)) }()
		}
		synctest.Wait()
		select {
		case got := <-answers:
			t.Errorf("from elsewhere, answered %d at once", got)
		default:
		}
		if got := ask("10.0.0.2:1"); got != 503 {
			t.Errorf("one more from anywhere is answered %d", got)
		}
		l.state.Store(&api.DrainState{Requested: true})
		for range cap(answers) {
			if got := <-answers; got != 200 {
				t.Errorf("who waited is answered %d", got)
			}
		}
	})
}

// deadlines is a response recorder with a settable deadline.
type deadlines struct{ *httptest.ResponseRecorder }

func (*deadlines) SetWriteDeadline(time.Time) error { return nil }

// A node with remaining shards or requests is not drained. The drain does not wait for numbers that a
// dead node has not reported, but waits for those of a node that may be alive.
func TestDrainIsOverWhenNothingIsLeft(t *testing.T) {
	for want, states := range map[bool][]api.DrainState{
		true:  {{Shards: 1}, {Requests: 1}, {Sockets: 1}, {Sockets: 1, Requests: -1}, {Requests: -1, Sockets: -1, Unconfirmed: true}},
		false: {{}, {Requested: true}, {Requests: -1, Sockets: -1}},
	} {
		for _, d := range states {
			if d.Left() != want {
				t.Errorf("Left of %+v = %v, want %v", d, !want, want)
			}
		}
	}
}
