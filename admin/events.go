package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"shardway/event"
	"shardway/internal/problem"
)

// Bounds on those who read events.
const (
	// maxReaders is how many may follow at once, or wait, and readersFromOne how many of
	// them from one address.
	maxReaders          = 64
	maxReadersPerSource = 32
	// keepAlive is the longest silence of a stream: a comment breaks it, so that both
	// sides, and what stands between them, see that the other is there.
	keepAlive = 15 * time.Second
	// streamStall is how long a reader may take nothing before it is dropped.
	streamWriteTimeout = 10 * time.Second
	// streamRetry is after what time a browser comes again.
	streamRetryAfter = time.Second
	// eventBatch is how many events go out at once, maxEvents how many a list has at most.
	eventBatch = 64
	maxEvents  = 1024
)

// EventList is the answer of GET /v1/events for who wants JSON.
type EventList struct {
	Node   string        `json:"node"`
	Events []event.Event `json:"events"` // the oldest first
	// Next is what to give as after to read on.
	Next string `json:"next"`
}

// events tells what happens at this node: as a stream of server-sent events (HTML
// standard, section 9.2) from the one that Last-Event-ID or after names, or from the
// oldest that is kept; or as a list for whoever asks for JSON or says how long to wait.
func (s *Server) eventsEndpoint(w http.ResponseWriter, r *http.Request) error {
	if s.events == nil {
		return problem.New(problem.NotFound, "this node keeps no events")
	}
	q, err := query(r, "after", "wait")
	if err != nil {
		return err
	}
	wait, err := q.duration("wait", 0)
	if err != nil {
		return err
	}
	name, after := "after", q.str("after")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		name, after = "Last-Event-ID", id // a browser that comes again asks for the same URL
	}
	cursor, err := s.events.Read(after)
	if err != nil {
		return badParam(name, truncate(after), "is not the id of an event: give one as it came, or none")
	}
	if !s.eventReaders.acquire(r.RemoteAddr) {
		return &problem.Problem{Code: problem.NotReady, Detail: "too many read the events of this node: ask another one, or try again", RetryAfter: streamRetryAfter}
	}
	defer s.eventReaders.release(r.RemoteAddr)
	w.Header().Set("Vary", "Accept")
	if accept := r.Header.Values("Accept"); q.has("wait") || !accepts(accept, "text/event-stream") || prefers(accept, "application/json", "text/event-stream") {
		return s.listEvents(w, r, cursor, min(wait, maxWait))
	}
	s.streamEvents(w, r, cursor)
	return nil
}

// listEvents answers with what there is, or waits for the next event if there is none.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request, c *event.Cursor, wait time.Duration) error {
	events, more := c.Next(maxEvents)
	if len(events) == 0 && wait > 0 {
		// A failure leaves the ordinary timeout, which is no harm.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-more:
			if s.access.Load() != admissionOf(r).access {
				return problem.New(problem.NotReady, "other people may read now: ask again")
			}
			events, _ = c.Next(maxEvents)
		case <-t.C:
		case <-r.Context().Done():
			return problem.New(problem.NotReady, "the node is stopping: ask another one")
		}
	}
	return writeJSON(w, EventList{Node: s.events.Node(), Events: nonNil(events), Next: c.After()})
}

// streamEvents writes events until the reader has gone, or takes nothing for too long, or
// the server stops, or other people may read.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, c *event.Cursor) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would keep it back
	out := &eventStream{w: w, rc: http.NewResponseController(w)}
	out.b.WriteString("retry: ")
	out.b.WriteString(strconv.FormatInt(streamRetryAfter.Milliseconds(), 10))
	out.b.WriteString("\n\n")
	if !out.flush() || r.Method == http.MethodHead {
		return
	}
	silence := time.NewTicker(keepAlive)
	defer silence.Stop()
	for {
		events, more := c.Next(eventBatch)
		for i := range events {
			out.append(&events[i])
		}
		if len(events) > 0 {
			silence.Reset(keepAlive)
			if !out.flush() {
				return
			}
		}
		select {
		case <-more:
		case <-silence.C:
			out.b.WriteString(":\n\n")
			if !out.flush() {
				return
			}
		case <-r.Context().Done():
			return
		}
		if s.access.Load() != admissionOf(r).access {
			return // he shall show again who he is
		}
	}
}

// stream writes server-sent events.
type eventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
	b  bytes.Buffer
}

// event adds one. Its JSON has no line break.
func (s *eventStream) append(e *event.Event) {
	data, err := json.Marshal(e)
	if err != nil {
		return // it has no value that JSON cannot hold
	}
	for _, line := range []string{"id: ", e.ID, "\nevent: ", e.Kind.String(), "\ndata: "} {
		s.b.WriteString(line)
	}
	s.b.Write(data)
	s.b.WriteString("\n\n")
}

// flush sends what was added; false: the reader is not there any more, or takes nothing.
func (s *eventStream) flush() bool {
	if s.rc.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) != nil {
		// Not a connection: a test's recorder. It takes all.
		_ = s.rc.SetWriteDeadline(time.Time{})
	}
	_, err := s.w.Write(s.b.Bytes())
	s.b.Reset()
	return err == nil && s.rc.Flush() == nil
}

// Events returns what happened at the node after the event of that id, or without one
// all that it knows. If there is nothing it waits for the next event, a minute at most.
func (c *Client) Events(ctx context.Context, after string, wait time.Duration) (EventList, error) {
	q := url.Values{"wait": {wait.String()}}
	if after != "" {
		q.Set("after", after)
	}
	return fetchJSON[EventList](ctx, c, call{method: http.MethodGet, path: "/v1/events?" + q.Encode(), serverWait: min(wait, maxWait)})
}
