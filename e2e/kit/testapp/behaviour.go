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

	"shardway/e2e/kit/history"
	"shardway/embed"
)

// behaviour is the response that the App-… headers of a request select. The zero value of each
// field means that its header is absent.
type behaviour struct {
	// Before the operation.
	gate          string        // App-Hang: the gate at which the request waits
	registerDelay time.Duration // App-Late: pause before the operation
	endSource     string        // App-End-Source: "context" or "node", see hasEnded

	// Response.
	delay  time.Duration // App-Delay: pause before each part
	chunks int           // App-Chunks: number of parts
	size   int           // App-Size: minimum length of the body in bytes
	killAt string        // App-Die: kill the process "before" or in the "middle" of the response
	cookie string        // App-Set-Cookie: value of Set-Cookie

	// Event streams, in place of the response.
	eventInterval time.Duration // App-Events: interval of a stream without a position
	feedInterval  time.Duration // App-Feed: interval of a resumable stream
	endGate       string        // App-Until: the gate that ends the stream of App-Events
}

// parseBehaviour reads the App-… headers. It treats an invalid number or duration as absent; the
// test notices this in the response.
func parseBehaviour(header http.Header) behaviour {
	selected := behaviour{gate: header.Get("App-Hang"), killAt: header.Get("App-Die"), endSource: header.Get("App-End-Source"), endGate: header.Get("App-Until"), cookie: header.Get("App-Set-Cookie")}
	selected.delay, _ = time.ParseDuration(header.Get("App-Delay"))
	selected.registerDelay, _ = time.ParseDuration(header.Get("App-Late"))
	selected.eventInterval, _ = time.ParseDuration(header.Get("App-Events"))
	selected.feedInterval, _ = time.ParseDuration(header.Get("App-Feed"))
	selected.chunks, _ = strconv.Atoi(header.Get("App-Chunks"))
	selected.size, _ = strconv.Atoi(header.Get("App-Size"))
	return selected
}

// hasEnded reports whether the request has ended, according to the source that App-End-Source selects:
// the context of the request, or the node in this process. An app must then not write any more, and
// the test checks that both sources report this in time. Without App-End-Source it returns false.
func (b behaviour) hasEnded(r *http.Request) bool {
	switch b.endSource {
	case "context":
		return r.Context().Err() != nil
	case "node":
		ctx := embed.RequestCtx(r.Context())
		return ctx != nil && embed.Err(ctx) != nil
	}
	return false
}

// respond writes the response with the requested delays and chunks. It calls beforeEnd right
// before it writes the last bytes. It returns early, without this call, if the client disconnects.
func (b behaviour) respond(w http.ResponseWriter, r *http.Request, run history.Run, result result, beforeEnd func()) {
	body := b.body(run, result)
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("App-Name", run.App)
	header.Set("App-Id", run.ID)
	header.Set("App-Count", strconv.FormatUint(result.count, 10))
	result.setHeader(header)
	if b.cookie != "" {
		header.Set("Set-Cookie", b.cookie)
	}
	if cookie := r.Header.Get("Cookie"); cookie != "" || b.cookie != "" {
		header.Set("App-Key", run.Key)
		header.Set("App-Cookie", cookie) // the cookie that the app has received
	}
	if b.chunks < 2 {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	parts := splitEvenly(body, max(b.chunks, 1))
	for i, part := range parts {
		if b.delay > 0 && !sleep(r, b.delay) {
			return
		}
		if b.killAt == "middle" && i == len(parts)/2 {
			killSelf()
		}
		if i == len(parts)-1 {
			beforeEnd()
		}
		if i == 0 && result.status != 0 {
			w.WriteHeader(result.status)
		}
		if _, err := w.Write(part); err != nil {
			return
		}
		if b.chunks > 1 {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// body returns the JSON body of the response, with spaces at its end up to the requested size.
func (b behaviour) body(run history.Run, res result) []byte {
	fields := map[string]any{
		"app": run.App, "id": run.ID, "key": run.Key, "shard": run.Shard, "epoch": run.Epoch, "count": res.count,
	}
	res.addTo(fields)
	body, err := json.Marshal(fields)
	if err != nil {
		panic(err) // cannot happen: all values are strings and numbers
	}
	if missing := b.size - len(body); missing > 0 {
		body = append(body, bytes.Repeat([]byte(" "), missing)...)
	}
	return body
}

// sendEvents sends one event per interval, each in two writes. It returns when the client
// disconnects. When endStream is closed, it sends a last event with the data "end" and returns. A nil
// endStream means no limit.
func (b behaviour) sendEvents(w http.ResponseWriter, r *http.Request, endStream <-chan struct{}) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 0; ; i++ {
		for _, part := range []string{fmt.Sprintf("id: %d\n", i), "data: tick\n\n"} {
			if _, err := io.WriteString(w, part); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
		select {
		case <-endStream:
			_, _ = io.WriteString(w, "data: end\n\n")
			return
		default:
		}
		if !sleep(r, b.eventInterval) {
			return
		}
	}
}

// sendFeed sends the events of the key that follow Last-Event-ID, one per interval, and declares
// in Shardway-Stream that another app can continue the stream.
// Except for the first event, it sends each event in two parts that are half an interval apart. So
// when a shard moves, some streams are in the middle of an event.
func (b behaviour) sendFeed(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Shardway-Stream", "resume")
	key := r.Header.Get("Shardway-Key")
	lastEventID, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64) // 0 if absent: start with the first event
	for eventID := lastEventID + 1; ; eventID++ {
		parts := []string{fmt.Sprintf("id: %d\n", eventID), fmt.Sprintf("data: %s\n\n", history.EventText(key, eventID))}
		for i, part := range parts {
			if _, err := io.WriteString(w, part); err != nil { //nolint:gosec // the client is a test, not a browser
				return
			}
			isFirstEvent := eventID == lastEventID+1
			if isFirstEvent && i == 0 {
				continue
			}
			if http.NewResponseController(w).Flush() != nil || !sleep(r, b.feedInterval/2) {
				return
			}
		}
	}
}

// serveUpgrade accepts the protocol upgrade, then discards all input and sends nothing until the
// client closes the connection.
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

// splitEvenly splits data into parts of almost the same length. No part is empty if data has at least
// count bytes.
func splitEvenly(data []byte, count int) [][]byte {
	parts := make([][]byte, 0, count)
	for i := range count {
		parts = append(parts, data[len(data)*i/count:len(data)*(i+1)/count])
	}
	return parts
}

// sleep waits for a duration. It returns false if the client disconnects before that.
func sleep(r *http.Request, duration time.Duration) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// killSelf kills the process with SIGKILL, so that no deferred function runs.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
