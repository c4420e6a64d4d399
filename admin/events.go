package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"shardway/admin/api"
	"shardway/event"
	"shardway/internal/problem"
)

// Limits on event readers.
const (
	// maxReaders is the maximum number of concurrent readers, and maxReadersPerSource the maximum for
	// one source.
	maxReaders          = 64
	maxReadersPerSource = 32
	// keepAlive is the interval of comments on an idle stream. They let both ends, and proxies
	// between them, detect a dead connection.
	keepAlive = 15 * time.Second
	// streamWriteTimeout is how long a write to a reader may block before the server drops the
	// reader.
	streamWriteTimeout = 10 * time.Second
	// streamRetryAfter is the delay before a browser reconnects.
	streamRetryAfter = time.Second
	// eventBatch is the maximum number of events per write, and maxEvents the maximum per list.
	eventBatch = 64
	maxEvents  = 1024
)

// eventsEndpoint serves the events of this node, starting after the event in Last-Event-ID or
// "after", or with the oldest event. The response is a list if the client prefers JSON or
// specifies "wait", and otherwise a stream of server-sent events (HTML standard, section 9.2). With "shards=1", the
// events shards-moved contain lists of shards.
func (s *Server) eventsEndpoint(w http.ResponseWriter, r *http.Request) error {
	if s.events == nil {
		return problem.New(problem.NotFound, "this node keeps no events")
	}
	values, err := query(r, "after", "wait", "shards")
	if err != nil {
		return err
	}
	wait, err := values.waitTime(0)
	if err != nil {
		return err
	}
	name, after := "after", values.get("after")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		name, after = "Last-Event-ID", id // a browser reconnects to the same URL
	}
	cursor, err := s.events.Read(after)
	if err != nil {
		return badParam(name, truncate(after), "is not the id of an event: give one as it came, or none")
	}
	if text := values.get("shards"); text != "" {
		includes, err := strconv.ParseBool(text)
		if err != nil {
			return badParam("shards", truncate(text), "must be 1 (with the lists of moved shards) or 0")
		}
		if includes {
			cursor.IncludeShards()
		}
	}
	if !s.eventReaders.Acquire(r.RemoteAddr) {
		return &problem.Problem{Code: problem.NotReady, Detail: "too many read the events of this node: ask another one, or try again", RetryAfter: streamRetryAfter}
	}
	defer s.eventReaders.Release(r.RemoteAddr)
	w.Header().Set("Vary", "Accept")
	accept := r.Header.Values("Accept")
	prefersList := !accepts(accept, "text/event-stream") || prefers(accept, "application/json", "text/event-stream")
	if prefersList || values.has("wait") {
		return s.listEvents(w, r, cursor, min(wait, api.MaxWait))
	}
	s.streamEvents(w, r, cursor)
	return nil
}

// listEvents responds with the next events. If there are none, it waits for the next event.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request, cursor *event.Cursor, wait time.Duration) error {
	events, moreAvailable := cursor.Next(maxEvents)
	if len(events) == 0 && wait > 0 {
		// If this fails, the shorter default timeout applies.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-moreAvailable:
			if s.access.Load() != admissionOf(r).access {
				return problem.New(problem.NotReady, "other people may read now: ask again")
			}
			events, _ = cursor.Next(maxEvents)
		case <-timer.C:
		case <-r.Context().Done():
			return problem.New(problem.NotReady, "the node is stopping: ask another one")
		}
	}
	return writeJSON(w, api.EventList{Node: s.events.Node(), Events: nonNil(events), Next: cursor.After()})
}

// streamEvents writes events until the reader disconnects, a write blocks for streamWriteTimeout,
// the server stops, or the access rules change.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, cursor *event.Cursor) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // otherwise nginx buffers the stream
	stream := &eventStream{w: w, controller: http.NewResponseController(w)}
	stream.buffer.WriteString("retry: ")
	stream.buffer.WriteString(strconv.FormatInt(streamRetryAfter.Milliseconds(), 10))
	stream.buffer.WriteString("\n\n")
	if !stream.flush() || r.Method == http.MethodHead {
		return
	}
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for {
		events, moreAvailable := cursor.Next(eventBatch)
		for i := range events {
			stream.append(&events[i])
		}
		if len(events) > 0 {
			idle.Reset(keepAlive)
			if !stream.flush() {
				return
			}
		}
		select {
		case <-moreAvailable:
		case <-idle.C:
			stream.buffer.WriteString(":\n\n") // a comment
			if !stream.flush() {
				return
			}
		case <-r.Context().Done():
			return
		}
		if s.access.Load() != admissionOf(r).access {
			return // the reader must authenticate again
		}
	}
}

// eventStream encodes server-sent events.
type eventStream struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	buffer     bytes.Buffer // encoded events that have not been sent
}

// append adds an event to the buffer. Its JSON contains no line break.
func (s *eventStream) append(e *event.Event) {
	data, err := json.Marshal(e)
	if err != nil {
		return // cannot happen: JSON can represent all values of an event
	}
	for _, line := range []string{"id: ", e.ID, "\nevent: ", e.Kind.String(), "\ndata: "} {
		s.buffer.WriteString(line)
	}
	s.buffer.Write(data)
	s.buffer.WriteString("\n\n")
}

// flush sends the buffer. It returns false if the write fails or times out.
func (s *eventStream) flush() bool {
	if s.controller.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) != nil {
		// The writer is a test recorder without deadlines.
		_ = s.controller.SetWriteDeadline(time.Time{})
	}
	_, err := s.w.Write(s.buffer.Bytes())
	s.buffer.Reset()
	return err == nil && s.controller.Flush() == nil
}
