package admin_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/auth"
	"shardway/event"
)

// ring returns the events of node n1, one for each of the given nodes.
func ring(nodes ...string) *event.Ring {
	r := event.NewRing(event.Options{Node: "n1", RunID: 7, Capacity: 8})
	for _, n := range nodes {
		r.Add(event.Event{Kind: event.NodeJoined, Node: n})
	}
	return r
}

func eventful(r *event.Ring) func() *admin.Server {
	return func() *admin.Server {
		return admin.New(admin.Options{API: apitest.SetOf(newFake()), Log: zerolog.Nop(), Events: r})
	}
}

// runWithEvents runs f in a synctest bubble with a server whose ring contains events about the given
// nodes.
func runWithEvents(t *testing.T, nodes []string, f func(x telling)) {
	t.Helper()
	var r *event.Ring
	serverInBubble(t, func() *admin.Server {
		r = ring(nodes...) // created in the bubble, because its readers block there
		return eventful(r)()
	}, func(s *admin.Server, dial func() net.Conn, stop func()) { f(telling{r, s, dial, stop}) })
}

type telling struct {
	ring *event.Ring
	s    *admin.Server
	dial func() net.Conn
	stop func()
}

// reader is a client that follows the events.
type reader struct {
	t    *testing.T
	conn net.Conn
	res  *http.Response
	b    *bufio.Reader
}

// follow requests the stream. The headers of the response must be available at once.
func follow(t *testing.T, conn net.Conn, target string, headers ...string) *reader {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", target, strings.Join(headers, "")); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // it ends with its connection
	if err != nil {
		t.Fatal(err)
	}
	return &reader{t, conn, res, bufio.NewReader(res.Body)}
}

// next returns the lines up to the next empty line, without line ends.
func (r *reader) next() string {
	r.t.Helper()
	var lines []string
	for {
		line, err := r.b.ReadString('\n')
		if err != nil {
			return strings.Join(append(lines, err.Error()), "|")
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			return strings.Join(lines, "|")
		}
		lines = append(lines, line)
	}
}

// event returns the next event and skips comments.
func (r *reader) event() event.Event {
	r.t.Helper()
	for {
		text := r.next()
		id, rest, ok := strings.Cut(strings.TrimPrefix(text, "id: "), "|event: ")
		kind, data, named := strings.Cut(rest, "|data: ")
		if !ok || !named {
			if strings.HasPrefix(text, "retry: ") || text == ":" {
				continue
			}
			r.t.Fatalf("no event: %q", text)
		}
		var e event.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.ID != id || e.Kind.String() != kind {
			r.t.Fatalf("%q: %v", text, err)
		}
		return e
	}
}

func TestEventsAreStreamed(t *testing.T) {
	runWithEvents(t, []string{"n1", "n2"}, func(x telling) {
		begun := time.Now()
		r := follow(t, x.dial(), "/v1/events?after=0000000000000007-2")
		if ct := r.res.Header.Get("Content-Type"); r.res.StatusCode != 200 || ct != "text/event-stream" || r.res.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v", r.res.StatusCode, r.res.Header)
		}
		if got := r.next(); got != "retry: 1000" || time.Since(begun) > time.Second {
			t.Errorf("first %q after %v, want it at once", got, time.Since(begun))
		}
		for range 9 { // longer than any timeout of the server
			if got := r.next(); got != ":" {
				t.Errorf("while nothing happens: %q, want a comment", got)
			}
		}
		if took := time.Since(begun).Round(time.Second); took != 135*time.Second {
			t.Errorf("nine comments took %v", took)
		}
		x.ring.Add(event.Event{Kind: event.NodeFailed, Node: "n2"})
		if e := r.event(); e.Kind != event.NodeFailed || e.Node != "n2" || e.ID != "0000000000000007-3" {
			t.Errorf("event %+v", e)
		}
		x.stop()
		if got := r.next(); got != io.EOF.Error() {
			t.Errorf("after the end: %q, want the end", got)
		}
	})
}

// A browser that reconnects sends the last event ID in a header and requests the original URL.
func TestEventsGoOnWhereTheReaderWas(t *testing.T) {
	runWithEvents(t, []string{"n1", "n2", "n3"}, func(x telling) {
		if e := follow(t, x.dial(), "/v1/events").event(); e.Node != "n1" {
			t.Errorf("without an id: %+v, want the oldest", e)
		}
		if e := follow(t, x.dial(), "/v1/events?after=0000000000000007-1", "Last-Event-ID: 0000000000000007-2\r\n").event(); e.Node != "n3" {
			t.Errorf("after 2: %+v", e)
		}
		r := follow(t, x.dial(), "/v1/events", "Last-Event-ID: 0000000000000006-2\r\n")
		if e := r.event(); e.Kind != event.Lost || e.Reason != event.LostRestarted {
			t.Errorf("after an event of another process: %+v, want to be told", e)
		}
		if e := r.event(); e.Node != "n1" {
			t.Errorf("and then %+v, want the oldest", e)
		}
		for range 9 {
			x.ring.Add(event.Event{Kind: event.LeaderLost})
		}
		if e := follow(t, x.dial(), "/v1/events?after=0000000000000007-2").event(); e.Kind != event.Lost || e.Reason != event.LostOverrun || e.Missed != 2 {
			t.Errorf("after 2 of 12, when 8 are kept: %+v", e)
		}
	})
}

// A slow reader does not block new events, and its connection is closed after a while.
func TestSlowReaderOfEventsIsDropped(t *testing.T) {
	runWithEvents(t, nil, func(x telling) {
		slow := follow(t, x.dial(), "/v1/events")
		synctest.Wait()
		begun := time.Now()
		add := func() { // more events than a connection buffers
			for range 4096 {
				x.ring.Add(event.Event{Kind: event.ActionRequested, Action: &event.AdminAction{What: strings.Repeat("x", 500)}})
				synctest.Wait()
			}
		}
		add()
		if took := time.Since(begun); took > 0 {
			t.Errorf("adding waited for %v", took)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if _, err := io.Copy(io.Discard, slow.b); err == nil {
			t.Error("the stream ended as if it were whole, want it cut")
		}
	})
}

func TestReadersOfEventsAreBounded(t *testing.T) {
	runWithEvents(t, nil, func(x telling) {
		all := make([]*reader, 32) // all from one address
		for i := range all {
			all[i] = follow(t, x.dial(), "/v1/events")
		}
		conn := x.dial()
		if status, text := exchange(t, conn, "GET /v1/events?wait=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"); status != 503 || !strings.Contains(text, "too many read the events") {
			t.Errorf("one more = %d %s, want 503", status, text)
		}
		if code := askFrom(t, x.s.Handler(), "10.9.9.9:1", "/v1/events?wait=0"); code != 200 {
			t.Errorf("from elsewhere = %d", code)
		}
		_ = all[0].conn.Close()
		time.Sleep(time.Second) // until the server detects its end
		if r := follow(t, x.dial(), "/v1/events"); r.res.StatusCode != 200 {
			t.Errorf("after one has gone: %d", r.res.StatusCode)
		}
		for _, r := range all[1:] {
			_ = r.conn.Close()
		}
	})
}

func askFrom(t *testing.T, h http.Handler, from, target string) int {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	r.RemoteAddr, r.Host = from, "localhost"
	h.ServeHTTP(w, r)
	return w.Code
}

// A stream ends when its client loses access.
func TestStreamEndsWhenAccessChanges(t *testing.T) {
	runWithEvents(t, []string{"n1"}, func(x telling) {
		open := follow(t, x.dial(), "/v1/events")
		if e := open.event(); e.Node != "n1" {
			t.Fatalf("%+v", e)
		}
		x.s.SetAccess(auth.Access{Read: tokens(t, readToken)})
		x.ring.Add(event.Event{Kind: event.NodeFailed, Node: "secret"})
		if got := open.next(); got != io.EOF.Error() {
			t.Errorf("he heard %q", got)
		}
		if refused := follow(t, x.dial(), "/v1/events"); refused.res.StatusCode != 401 {
			t.Errorf("without a token = %d, want 401", refused.res.StatusCode)
		}
		if let := follow(t, x.dial(), "/v1/events", "Authorization: Bearer "+readToken+"\r\n"); let.event().Node != "n1" {
			t.Error("with a token: no events")
		}
	})
}

// A waiting request for a list ends like a stream when access changes: a token that was replaced
// in the meantime gets no events.
func TestWaitingListEndsWhenAccessChanges(t *testing.T) {
	runWithEvents(t, []string{"n1"}, func(x telling) {
		x.s.SetAccess(auth.Access{Read: tokens(t, readToken)})
		answer := make(chan string)
		go func() {
			_, body := exchange(t, x.dial(), "GET /v1/events?wait=1m&after=0000000000000007-1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+readToken+"\r\n\r\n")
			answer <- body
		}()
		synctest.Wait()
		x.s.SetAccess(auth.Access{Read: tokens(t, writeToken)})
		x.ring.Add(event.Event{Kind: event.NodeFailed, Node: "n9"})
		if got := <-answer; strings.Contains(got, "n9") || !strings.Contains(got, "not-ready") {
			t.Errorf("he heard %s", got)
		}
	})
}

func list(t *testing.T, h http.Handler, target string, headers ...string) api.EventList {
	t.Helper()
	res := fetchJSON(t, h, "GET", target, "", headers...)
	var l api.EventList
	if err := json.Unmarshal(res.Body.Bytes(), &l); err != nil || res.Code != 200 {
		t.Fatalf("%s = %d %s", target, res.Code, body(res))
	}
	return l
}

func TestEventsAsAList(t *testing.T) {
	r := ring("n1", "n2")
	h := eventful(r)().Handler()
	all := list(t, h, "/v1/events?wait=0")
	if all.Node != "n1" || len(all.Events) != 2 || all.Events[1].Node != "n2" || all.Next != "0000000000000007-2" {
		t.Errorf("all = %+v", all)
	}
	if more := list(t, h, "/v1/events?after="+all.Next, "Accept", "application/json"); len(more.Events) != 0 || more.Next != all.Next {
		t.Errorf("more = %+v", more)
	}
	fetchJSON(t, h, "POST", "/v1/drain?node=n3", "")
	more := list(t, h, "/v1/events?wait=0&after="+all.Next)
	if len(more.Events) != 1 || more.Events[0].Kind != event.ActionRequested || *more.Events[0].Action != (event.AdminAction{By: "anybody", From: "192.0.2.1:1234", What: "drain n3", Status: 200}) {
		t.Errorf("after an action: %+v", more)
	}
	for accept, want := range map[string]string{"application/json": "application/json", "text/html": "application/json", "text/event-stream": "text/event-stream", "*/*": "text/event-stream", "": "text/event-stream"} {
		if res := fetchJSON(t, h, "HEAD", "/v1/events", "", "Accept", accept); res.Header().Get("Content-Type") != want {
			t.Errorf("Accept %q gets %q, want %q", accept, res.Header().Get("Content-Type"), want)
		}
	}
	r.Add(event.Event{Kind: event.ShardsMoved, Shards: []event.MovedShards{{To: "n1", Shards: []uint16{3}}}})
	for query, want := range map[string]int{"": 0, "&shards=0": 0, "&shards=1": 1} {
		if last := list(t, h, "/v1/events?wait=0&after="+more.Next+query).Events; len(last) != 1 || len(last[0].Shards) != want {
			t.Errorf("%q = %+v, want %d lists of shards", query, last, want)
		}
	}
	for target, want := range map[string]int{"/v1/events?shards=x": 400, "/v1/events?wait=x": 400, "/v1/events?after=17": 400, "/v1/events?since=1": 400} {
		if res := fetchJSON(t, h, "GET", target, ""); res.Code != want {
			t.Errorf("%s = %d %s", target, res.Code, body(res))
		}
	}
	if res := fetchJSON(t, handlerOf(newFake()), "GET", "/v1/events", ""); res.Code != 404 {
		t.Errorf("without a ring = %d", res.Code)
	}
	if res := fetchJSON(t, h, "HEAD", "/v1/events", ""); res.Code != 200 || res.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("HEAD = %d %v", res.Code, res.Header())
	}
}

// Invalid requests do not add events. Once, a client of an admin port without tokens displaced all
// events from the ring with invalid requests.
func TestNonsensePushesNothingOutOfTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := event.NewRing(event.Options{Node: "n1", RunID: 7, Capacity: 64})
		r.Add(event.Event{Kind: event.NodeFailed, Node: "n2"})
		h := eventful(r)().Handler()
		bad := func() { fetchJSON(t, h, "POST", "/v1/drain?node=n3&nonsense=1", "") }
		deeds := func(after string) (all []event.AdminAction, next string) {
			l := list(t, h, "/v1/events?wait=0&after="+after)
			for _, e := range l.Events {
				if e.Action != nil {
					all = append(all, *e.Action)
				}
			}
			return all, l.Next
		}
		for range 1000 {
			bad()
		}
		first := list(t, h, "/v1/events?wait=0")
		if first.Events[0].Node != "n2" {
			t.Errorf("the first event is %+v, want what had happened", first.Events[0])
		}
		told, next := deeds("")
		if len(told) != 16 || told[15].Status != 400 || told[15].Suppressed != 0 {
			t.Errorf("%d are told: %+v", len(told), told)
		}
		fetchJSON(t, h, "POST", "/v1/drain?node=n3", "")
		told, next = deeds(next)
		if len(told) != 1 || told[0].Status != 200 || told[0].Suppressed != 0 {
			t.Errorf("beside nonsense what was done is told as %+v", told)
		}
		time.Sleep(5*time.Minute - time.Nanosecond)
		bad()
		time.Sleep(time.Nanosecond)
		bad()
		bad()
		told, next = deeds(next)
		if len(told) != 1 || told[0].Suppressed != 1000-16+1 {
			t.Errorf("after five minutes %+v", told)
		}
		time.Sleep(24 * time.Hour)
		for range 20 {
			bad()
		}
		if told, _ = deeds(next); len(told) != 16 || told[0].Suppressed != 1 || told[1].Suppressed != 0 {
			t.Errorf("the day after, %d are told: %+v", len(told), told)
		}
	})
}

func TestListWaitsForTheNextEvent(t *testing.T) {
	runWithEvents(t, []string{"n1"}, func(x telling) {
		begun := time.Now()
		time.AfterFunc(40*time.Second, func() { x.ring.Add(event.Event{Kind: event.NodeLeft, Node: "n9"}) })
		conn := x.dial()
		status, text := exchange(t, conn, "GET /v1/events?after=0000000000000007-1&wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if status != 200 || !strings.Contains(text, `"node":"n9"`) || time.Since(begun).Round(time.Second) != 40*time.Second {
			t.Errorf("%d %s after %v", status, text, time.Since(begun))
		}
	})
}
