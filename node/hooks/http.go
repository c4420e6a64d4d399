package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"shardway/ack/agent"
)

// Header tells the app that a request is a hook and which one. A node takes it off what
// its clients send.
const Header = "Shardway-Hook"

const (
	maxHead  = 64 << 10  // of an answer
	maxBody  = 512 << 10 // of an answer: 256 notes as long as they may be, and as many reasons
	maxShown = 200       // of an answer that is no success, in the error
)

// HTTP calls an app in another process.
type HTTP struct {
	// Dial opens a connection to the app.
	Dial func(ctx context.Context) (net.Conn, error)
	// Host is what the app is told for one.
	Host string
	// Path is what the hooks' names are appended to, with a slash between; empty: none.
	Path string
	// Disk names the disk of the node, to which the calls' numbers belong.
	Disk string

	kept *http.Transport // of Alive
}

// Do posts the call over a connection of its own, which is closed when it returns. It
// does so when ctx ends, if not before.
func (h *HTTP) Do(ctx context.Context, call agent.HookCall) agent.HookResult {
	conn, err := h.Dial(ctx)
	if err != nil {
		return agent.HookResult{Err: named(ctx, &call, err), Refused: errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist)}
	}
	defer func() { _ = conn.Close() }()
	// Whatever the client does at its end: the connection is closed with the call.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r, err := h.post(ctx, conn, call)
	if err != nil {
		return agent.HookResult{Err: named(ctx, &call, err)}
	}
	return r
}

// post asks over conn and reads the answer.
func (h *HTTP) post(ctx context.Context, conn net.Conn, call agent.HookCall) (agent.HookResult, error) {
	name := call.Kind.String()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.Host+h.Path+"/"+name, bytes.NewReader(encode(&call, h.Disk)))
	if err != nil {
		return agent.HookResult{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "shardway-hooks")
	r.Header.Set(Header, name)
	one := oneTransport(conn)
	defer one.CloseIdleConnections()
	res, err := one.RoundTrip(r)
	if err != nil {
		return agent.HookResult{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return agent.HookResult{}, err
	case res.StatusCode < 200 || res.StatusCode > 299:
		return agent.HookResult{}, fmt.Errorf("the app answered %s with status %d%s; any 2xx is success, and what failed for single shards belongs into \"failed\"", h.Path+"/"+name, res.StatusCode, shown(body))
	case len(body) > maxBody:
		return agent.HookResult{}, fmt.Errorf("the app's answer to %s is longer than %d bytes; a note is to say where the state is, not to hold it", h.Path+"/"+name, maxBody)
	}
	return decode(&call, body)
}

// oneTransport is a client of one request over a connection that is there: no other is
// opened for it, by a retry or for a proxy.
func oneTransport(conn net.Conn) *http.Transport {
	used := false
	return &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if used {
				return nil, net.ErrClosed
			}
			used = true
			return conn, nil
		},
		Proxy:                  nil,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
	}
}

// shown is what an answer says, for people.
func shown(body []byte) string {
	text := strings.TrimSpace(printable(string(body[:min(len(body), maxShown)])))
	if text == "" {
		return ""
	}
	return ": " + text
}

// printable is foreign text for a line of a log.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// clipped is printable, of at most so many bytes.
func clipped(text string, most int) string {
	if text = printable(text); len(text) > most {
		text = printable(text[:most]) // not half a letter
	}
	return text
}
