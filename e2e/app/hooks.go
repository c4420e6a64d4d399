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

// hookPath is where the hooks are.
const hookPath = "/_state/"

// ill is what is wrong with a hook.
type hookFault struct {
	kind    string
	shards []uint32      // of how "failed"
	delay   time.Duration // of how "slow"
	replaced   chan struct{} // closed when the ill is over
}

// sicken has a hook do what how says until it is told something else: slow, 500, huge,
// garbage, gone, hang, twice, failed:N,N (these shards), unable (all shards fail), absent (no
// shard is held) and well for nothing.
func (s *state) setFault(hook, how string) error {
	i := &hookFault{kind: how, replaced: make(chan struct{})}
	word, arg, _ := strings.Cut(how, ":")
	i.kind = word
	switch word {
	case "slow":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		i.delay = d
	case "failed":
		for n := range strings.SplitSeq(arg, ",") {
			shard, err := strconv.ParseUint(n, 10, 32)
			if err != nil {
				return err
			}
			i.shards = append(i.shards, uint32(shard))
		}
	case "500", "huge", "garbage", "gone", "hang", "twice", "unable", "absent", "well":
	default:
		return fmt.Errorf("no such ill: %q", how)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.faults[hook]; was != nil {
		close(was.replaced)
	}
	s.faults[hook] = i
	return nil
}

func (s *state) faultOf(hook string) *hookFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.faults[hook]; i != nil {
		return i
	}
	return &hookFault{kind: "well"}
}

// serveHook answers a call.
func (s *state) serveHook(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, hookPath)
	if r.Header.Get("Shardway-Hook") != name {
		http.Error(w, "not from a node", http.StatusForbidden)
		return
	}
	var c hookCall
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i := s.faultOf(name)
	switch i.kind {
	case "slow":
		if !sleep(r, i.delay) {
			return
		}
	case "hang":
		select {
		case <-i.replaced:
			http.Error(w, "it hung", http.StatusServiceUnavailable)
		case <-r.Context().Done():
		}
		return
	case "500":
		http.Error(w, "no way\x1b[2J", http.StatusInternalServerError)
		return
	case "huge":
		_, _ = io.WriteString(w, `{"x":"`+strings.Repeat("x", 1<<20)+`"}`)
		return
	case "garbage":
		writeRaw(w, "what?\r\n\r\n")
		return
	case "gone":
		writeRaw(w, "")
		return
	case "absent":
		s.handleCall("lost", c, nil)
		absent := []uint32{}
		for _, h := range c.Shards {
			absent = append(absent, h.Shard)
		}
		writeJSON(w, map[string]any{"absent": absent})
		return
	}
	failing := i.shards
	if i.kind == "unable" {
		failing = nil
		for _, h := range c.Shards {
			failing = append(failing, h.Shard)
		}
	}
	failed, notes := s.handleCall(name, c, failing)
	body, err := json.Marshal(map[string]any{"failed": failed, "notes": notes})
	if err != nil {
		panic(err) // numbers and texts always encode
	}
	if i.kind == "twice" {
		one := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		writeRaw(w, one+one)
		return
	}
	_, _ = w.Write(body)
}

// raw says something on the connection, and closes it.
func writeRaw(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, err = io.WriteString(conn, text)
	_ = errors.Join(err, conn.Close())
}

// control is what the test asks of the hooks; false: it is none of this.
func (s *state) serveControl(w http.ResponseWriter, r *http.Request) bool {
	q := r.URL.Query()
	var err error
	switch r.URL.Path {
	case "/told":
		s.mu.Lock()
		all := append([]hookRecord{}, s.calls...)
		s.mu.Unlock()
		writeJSON(w, all)
		return true
	case "/ill":
		err = s.setFault(q.Get("hook"), q.Get("how"))
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
