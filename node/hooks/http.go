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

// Header is the request header that contains the name of the hook. Nodes remove it from the requests of
// clients, so the app can rely on it.
const Header = "Shardway-Hook"

// ServiceHeader is the request header that contains the name of the service, if the node has services. Nodes
// remove it from the requests of clients.
const ServiceHeader = "Shardway-Service"

// Limits for responses of the app, in bytes.
const (
	maxHeaderBytes = 64 << 10  // header section
	maxBodyBytes   = 512 << 10 // body: enough for 256 notes of the largest length, and as many reasons
	maxShownBytes  = 200       // part of the body of an error response that the error contains
)

// HTTP calls an app in another process.
type HTTP struct {
	// Dial opens a connection to the app.
	Dial func(ctx context.Context) (net.Conn, error)
	// Host is the Host header of the requests.
	Host string
	// Path is the prefix of the paths of the hooks: the path of a hook is Path, a slash and the name of the
	// hook. It may be empty.
	Path string
	// Disk is the disk ID of the node. The sequence numbers of the calls are unique for a disk only.
	Disk string
	// Service is the service that the app runs. Empty means that the configuration of the node has no
	// services, and the app runs the service default.
	Service string

	aliveTransport *http.Transport // for the persistent connection of Alive; nil before the first call
}

// Do sends the call over a new connection and closes the connection before it returns. It returns when the
// response has arrived or ctx has ended. It does not send a call for shards of another service.
func (h *HTTP) Do(ctx context.Context, call agent.HookCall) agent.HookResult {
	if err := h.checkService(&call); err != nil {
		return agent.HookResult{Err: newCallError(&call, err), Refused: true}
	}
	return mapShards(h.do(ctx, shardsInService(call)), call.First)
}

// do implements Do. The shards of the call and of the result count from the first shard of the service.
func (h *HTTP) do(ctx context.Context, call agent.HookCall) agent.HookResult {
	conn, err := h.Dial(ctx)
	if err != nil {
		return agent.HookResult{Err: describeError(ctx, &call, err), Refused: errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist)}
	}
	defer func() { _ = conn.Close() }()
	// Close the connection when ctx ends, regardless of what the HTTP client does then.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	result, err := h.post(ctx, conn, call)
	if err != nil {
		return agent.HookResult{Err: describeError(ctx, &call, err)}
	}
	return result
}

// post sends the request for a call over conn and reads the response.
func (h *HTTP) post(ctx context.Context, conn net.Conn, call agent.HookCall) (agent.HookResult, error) {
	name := call.Kind.String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.Host+h.Path+"/"+name, bytes.NewReader(encodeRequest(&call, h.Disk)))
	if err != nil {
		return agent.HookResult{}, err
	}
	h.setHeaders(request, name)
	transport := singleConnTransport(conn)
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return agent.HookResult{}, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		return agent.HookResult{}, err
	case response.StatusCode < 200 || response.StatusCode > 299:
		return agent.HookResult{}, fmt.Errorf("the app answered %s with status %d%s; any 2xx is success, and what failed for single shards belongs into \"failed\"", h.Path+"/"+name, response.StatusCode, describeBody(body))
	case len(body) > maxBodyBytes:
		return agent.HookResult{}, fmt.Errorf("the app's answer to %s is longer than %d bytes; a note is to say where the state is, not to hold it", h.Path+"/"+name, maxBodyBytes)
	}
	return decodeResponse(&call, body)
}

// setHeaders sets the headers of the request for the named hook.
func (h *HTTP) setHeaders(request *http.Request, name string) {
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "shardway-hooks")
	request.Header.Set(Header, name)
	if h.Service != "" {
		request.Header.Set(ServiceHeader, h.Service)
	}
}

// singleConnTransport returns a transport for one request over conn. It opens no other connection, so that neither
// a retry nor a proxy from the environment can send the request again.
func singleConnTransport(conn net.Conn) *http.Transport {
	isUsed := false
	return &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			if isUsed {
				return nil, net.ErrClosed
			}
			isUsed = true
			return conn, nil
		},
		Proxy:                  nil,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// describeBody returns the start of a response body for an error message, with a separator.
func describeBody(body []byte) string {
	text := strings.TrimSpace(printable(string(body[:min(len(body), maxShownBytes)])))
	if text == "" {
		return ""
	}
	return ": " + text
}

// printable replaces each non-printable character of text with a space.
func printable(text string) string {
	return strings.Map(func(char rune) rune {
		if char == utf8.RuneError || !unicode.IsPrint(char) {
			return ' '
		}
		return char
	}, text)
}

// truncate returns printable(text), truncated to maxBytes bytes.
func truncate(text string, maxBytes int) string {
	if text = printable(text); len(text) > maxBytes {
		text = printable(text[:maxBytes]) // again, because the last character may have been split
	}
	return text
}
