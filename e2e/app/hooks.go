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
type ill struct {
	how    string
	shards []uint32      // of how "failed"
	wait   time.Duration // of how "slow"
	well   chan struct{} // closed when the ill is over
}

// sicken has a hook do what how says until it is told something else: slow, 500, huge,
// garbage, gone, hang, twice, failed:N,N (these shards), unable (all shards fail), absent (no
// shard is held) and well for nothing.
func (s *state) sicken(hook, how string) error {
	i := &ill{how: how, well: make(chan struct{})}
	word, arg, _ := strings.Cut(how, ":")
	i.how = word
	switch word {
	case "slow":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		i.wait = d
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
	if was := s.ills[hook]; was != nil {
		close(was.well)
	}
	s.ills[hook] = i
	return nil
}

func (s *state) illOf(hook string) *ill {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.ills[hook]; i != nil {
		return i
	}
	return &ill{how: "well"}
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
	i := s.illOf(name)
	switch i.how {
	case "slow":
		if !pause(r, i.wait) {
			return
		}
	case "hang":
		select {
		case <-i.well:
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
		raw(w, "what?\r\n\r\n")
		return
	case "gone":
		raw(w, "")
		return
	case "absent":
		s.hook("lost", c, nil)
		absent := []uint32{}
		for _, h := range c.Shards {
			absent = append(absent, h.Shard)
		}
		reply(w, map[string]any{"absent": absent})
		return
	}
	failing := i.shards
	if i.how == "unable" {
		failing = nil
		for _, h := range c.Shards {
			failing = append(failing, h.Shard)
		}
	}
	failed, notes := s.hook(name, c, failing)
	body, err := json.Marshal(map[string]any{"failed": failed, "notes": notes})
	if err != nil {
		panic(err) // numbers and texts always encode
	}
	if i.how == "twice" {
		one := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		raw(w, one+one)
		return
	}
	_, _ = w.Write(body)
}

// raw says something on the connection, and closes it.
func raw(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, err = io.WriteString(conn, text)
	_ = errors.Join(err, conn.Close())
}

// control is what the test asks of the hooks; false: it is none of this.
func (s *state) control(w http.ResponseWriter, r *http.Request) bool {
	q := r.URL.Query()
	var err error
	switch r.URL.Path {
	case "/told":
		s.mu.Lock()
		all := append([]told{}, s.told...)
		s.mu.Unlock()
		reply(w, all)
		return true
	case "/ill":
		err = s.sicken(q.Get("hook"), q.Get("how"))
	case "/flush":
		err = s.flush()
	default:
		return false
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return true
	}
	reply(w, "done")
	return true
}
