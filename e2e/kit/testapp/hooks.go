//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// hookPath is the path prefix of the hooks; the name of the hook follows.
const hookPath = "/_state/"

// hookFault is the way in which a hook fails.
type hookFault struct {
	kind     string        // one of the kinds of setFault, without its argument
	shards   []uint32      // for "failed": the shards that fail
	delay    time.Duration // for "slow"
	replaced chan struct{} // closed when another fault replaces this one
}

// setFault sets the fault of a hook until the next call of setFault for that hook. The fault is one of:
//
//	slow:D       wait the duration D, then succeed
//	500          respond with status 500
//	huge         respond with a body of 1 MiB
//	garbage      respond with bytes that are not HTTP
//	gone         close the connection without a response
//	hang         wait for the next setFault, then respond with status 503
//	twice        send the response twice
//	failed:N,N   report these shards as failed
//	unable       report all shards as failed
//	absent       discard the shards and report all of them as absent
//	none         succeed
func (s *state) setFault(hook, spec string) error {
	fault := &hookFault{kind: spec, replaced: make(chan struct{})}
	kind, arg, _ := strings.Cut(spec, ":")
	fault.kind = kind
	switch kind {
	case "slow":
		duration, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		fault.delay = duration
	case "failed":
		for number := range strings.SplitSeq(arg, ",") {
			shard, err := strconv.ParseUint(number, 10, 32)
			if err != nil {
				return err
			}
			fault.shards = append(fault.shards, uint32(shard))
		}
	case "500", "huge", "garbage", "gone", "hang", "twice", "unable", "absent", "none":
	default:
		return fmt.Errorf("unknown hook fault %q", spec)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if previous := s.faults[hook]; previous != nil {
		close(previous.replaced)
	}
	s.faults[hook] = fault
	return nil
}

// faultOf returns the current fault of a hook. Its kind is "none" if no fault is set.
func (s *state) faultOf(hook string) *hookFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault := s.faults[hook]; fault != nil {
		return fault
	}
	return &hookFault{kind: "none"}
}

// serveHook handles one hook call of a node.
func (s *state) serveHook(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, hookPath)
	if r.Header.Get("Shardway-Hook") != name {
		http.Error(w, "the header Shardway-Hook does not match the path", http.StatusForbidden)
		return
	}
	var call hookCall
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fault := s.faultOf(name)
	if s.serveFault(w, r, fault, call) {
		return
	}
	var mustFail []uint32
	switch fault.kind {
	case "failed":
		mustFail = fault.shards
	case "unable":
		mustFail = call.shardIDs()
	}
	failed, notes := s.handleCall(name, call, mustFail)
	body, err := json.Marshal(map[string]any{"failed": failed, "notes": notes})
	if err != nil {
		panic(err) // cannot happen: all values are strings and numbers
	}
	if fault.kind == "twice" {
		response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		writeRaw(w, response+response)
		return
	}
	_, _ = w.Write(body)
}

// serveFault writes the response of a fault that replaces the hook. It returns false if the hook must run:
// without a fault, after the delay of "slow", and with a fault that affects only the response.
func (s *state) serveFault(w http.ResponseWriter, r *http.Request, fault *hookFault, call hookCall) (served bool) {
	switch fault.kind {
	case "slow":
		clientGone := !sleep(r, fault.delay)
		return clientGone
	case "hang":
		select {
		case <-fault.replaced:
			http.Error(w, "it hung", http.StatusServiceUnavailable)
		case <-r.Context().Done():
		}
	case "500":
		http.Error(w, "no way\x1b[2J", http.StatusInternalServerError)
	case "huge":
		_, _ = io.WriteString(w, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
	case "garbage":
		writeRaw(w, "what?\r\n\r\n")
	case "gone":
		writeRaw(w, "")
	case "absent":
		s.handleCall("lost", call, nil)
		writeJSON(w, map[string]any{"absent": call.shardIDs()})
	default:
		return false
	}
	return true
}

// shardIDs returns the shards of the call. The result is not nil.
func (c *hookCall) shardIDs() []uint32 {
	ids := make([]uint32, 0, len(c.Shards))
	for _, shard := range c.Shards {
		ids = append(ids, shard.ID)
	}
	return ids
}

// writeRaw writes text to the connection in place of an HTTP response, and closes the connection.
func writeRaw(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, err = io.WriteString(conn, text)
	_ = errors.Join(err, conn.Close())
}

// serveControl handles a control request for the hooks. handled is false if the path is not one of
// these.
func (s *state) serveControl(w http.ResponseWriter, r *http.Request) (handled bool) {
	query := r.URL.Query()
	var err error
	switch r.URL.Path {
	case "/hook-calls":
		s.mu.Lock()
		calls := append([]hookRecord{}, s.calls...)
		s.mu.Unlock()
		writeJSON(w, calls)
		return true
	case "/hook-fault":
		err = s.setFault(query.Get("hook"), query.Get("how"))
	case "/flush":
		err = s.saveAll()
	default:
		return false
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return true
	}
	writeJSON(w, "done")
	return true
}
