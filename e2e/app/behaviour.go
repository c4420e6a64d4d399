//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"shardway/e2e/history"
	"shardway/embed"
)

// behaviour is what a request's App-… headers ask for.
type behaviour struct {
	delay, registerDelay  time.Duration
	eventInterval, feedInterval time.Duration
	gate, killAt    string
	chunks, size int
	doneCheck         string
	endGate        string
}

// readBehaviour takes what it understands: a test that writes nonsense sees it
// in the answer.
func parseBehaviour(h http.Header) behaviour {
	b := behaviour{gate: h.Get("App-Hang"), killAt: h.Get("App-Die"), doneCheck: h.Get("App-Heed"), endGate: h.Get("App-Until")}
	b.delay, _ = time.ParseDuration(h.Get("App-Delay"))
	b.registerDelay, _ = time.ParseDuration(h.Get("App-Late"))
	b.eventInterval, _ = time.ParseDuration(h.Get("App-Events"))
	b.feedInterval, _ = time.ParseDuration(h.Get("App-Feed"))
	b.chunks, _ = strconv.Atoi(h.Get("App-Chunks"))
	b.size, _ = strconv.Atoi(h.Get("App-Size"))
	return b
}

// over asks whether the request is, if and as it was told to.
func (b behaviour) isDone(r *http.Request) bool {
	switch b.doneCheck {
	case "context":
		return r.Context().Err() != nil
	case "node":
		ctx := embed.RequestCtx(r.Context())
		return ctx != nil && embed.Err(ctx) != nil
	}
	return false
}

// answer writes the answer, as slowly as asked for, and calls last before its
// last bytes. It returns early if the client leaves.
func (b behaviour) respond(w http.ResponseWriter, r *http.Request, run history.Run, res result, last func()) {
	fields := map[string]any{
		"app": run.App, "id": run.ID, "key": run.Key, "shard": run.Shard, "epoch": run.Epoch, "count": res.count,
	}
	res.addTo(fields)
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	if pad := b.size - len(body); pad > 0 {
		body = append(body, bytes.Repeat([]byte(" "), pad)...)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("App-Name", run.App)
	h.Set("App-Id", run.ID)
	h.Set("App-Count", strconv.FormatUint(res.count, 10))
	res.setHeader(h)
	if b.chunks < 2 {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	parts := splitEvenly(body, max(b.chunks, 1))
	for i, part := range parts {
		if b.delay > 0 && !sleep(r, b.delay) {
			return
		}
		if b.killAt == "amid" && i == len(parts)/2 {
			killSelf()
		}
		if i == len(parts)-1 {
			last()
		}
		if i == 0 && res.status != 0 {
			w.WriteHeader(res.status)
		}
		if _, err := w.Write(part); err != nil {
			return
		}
		if b.chunks > 1 {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// stream sends an event every so often, each in two writes, until the client leaves or end is
// closed; then the last one says so. A nil end never is.
func (b behaviour) sendEvents(w http.ResponseWriter, r *http.Request, end <-chan struct{}) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 0; ; i++ {
		for _, part := range []string{fmt.Sprintf("id: %d\n", i), "data: tick\n\n"} {
			if _, err := io.WriteString(w, part); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
		select {
		case <-end:
			_, _ = io.WriteString(w, "data: end\n\n")
			return
		default:
		}
		if !sleep(r, b.eventInterval) {
			return
		}
	}
}

// follow sends the events of the key behind the last one that the client has, one every so
// often, and says that another app can go on with that. But for the first an event comes
// in two parts with half of the time between them, so moves come in the middle of some.
func (b behaviour) sendFeed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Shardway-Stream", "resume")
	key := r.Header.Get("Shardway-Key")
	last, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64) // without one from the beginning
	for n := last + 1; ; n++ {
		for i, part := range []string{fmt.Sprintf("id: %d\n", n), fmt.Sprintf("data: %s\n\n", history.EventText(key, n))} {
			if _, err := io.WriteString(w, part); err != nil { //nolint:gosec // no browser reads it
				return
			}
			if n == last+1 && i == 0 {
				continue
			}
			if http.NewResponseController(w).Flush() != nil || !sleep(r, b.feedInterval/2) {
				return
			}
		}
	}
}

// upgrade takes the connection over and says nothing until the other side leaves.
func serveUpgrade(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	if _, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade")); err == nil {
		_, _ = io.Copy(io.Discard, buffered)
	}
}

// split cuts b into n parts, none empty while there are bytes enough.
func splitEvenly(b []byte, n int) [][]byte {
	parts := make([][]byte, 0, n)
	for i := range n {
		parts = append(parts, b[len(b)*i/n:len(b)*(i+1)/n])
	}
	return parts
}

// pause waits for d; false if the client left first.
func sleep(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// die is what kill -9 does to the app.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
