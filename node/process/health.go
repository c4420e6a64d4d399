package process

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"shardway/config"
	"shardway/internal/rawio"
	"shardway/node/disk"
	"shardway/proxy/h1"
)

// instanceHeader is the response header with which the app identifies its process.
const instanceHeader = "Shardway-App-Instance"

// appInstance is the process name in the response to the last health check.
type appInstance struct{ name atomic.Pointer[string] }

// get returns the name, or "" if the last check got no response or no valid name.
func (a *appInstance) get() string {
	if name := a.name.Load(); name != nil {
		return *name
	}
	return ""
}

// set stores the name, or none if name is nil. It quotes a name that is not UTF-8: the data directory stores only
// UTF-8, and a name that was read back differently would count as a restart of the app.
func (a *appInstance) set(name *string) {
	if name != nil && !utf8.ValidString(*name) {
		quoted := strconv.QuoteToASCII(*name)
		name = &quoted
	}
	if name != nil && (*name == "" || len(*name) > disk.MaxAppInstance) {
		name = nil
	}
	a.name.Store(name)
}

// appChecker returns the health check of the app that dial connects to. With a path it sends the request
// of check, and the response decides. Without a path it only connects. addr is the default of the Host
// header; for a Unix socket it is empty, and the header is localhost. Each check sets instance.
func appChecker(dial func(context.Context) (net.Conn, error), addr string, check config.HealthCheck, instance *appInstance) func(context.Context) error {
	if check.Path == "" {
		return connectChecker(dial, addr)
	}
	return func(ctx context.Context) error {
		request, err := newHealthRequest(ctx, addr, &check)
		if err != nil {
			return err
		}
		instance.set(nil)
		// Use a new connection for each check, to verify that the app accepts connections. The proxy
		// settings of the environment do not apply.
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		response, err := sendHealthCheck(conn, request)
		if err != nil {
			return cmp.Or(ctx.Err(), fmt.Errorf("the app answered %s with no response: %w", check.Path, err))
		}
		name := string(response.Value(instanceHeader))
		instance.set(&name)
		if err := checkResponse(response, &check); err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		return nil
	}
}

// newHealthRequest returns the request of a health check.
func newHealthRequest(ctx context.Context, addr string, check *config.HealthCheck) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, check.Method, "http://"+cmp.Or(addr, "localhost")+check.Path, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Host = cmp.Or(check.Host, request.Host)
	request.Close = true
	for _, field := range check.Headers {
		request.Header.Add(field.Name, field.Value)
	}
	if request.Header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "shardway-health")
	}
	return request, nil
}

// checkResponse returns an error unless the response is that of a healthy app.
func checkResponse(response *h1.Response, check *config.HealthCheck) error {
	if !check.AcceptsStatus(response.Status()) {
		return fmt.Errorf("the app answered %s with %d %s; expected %s", check.Path, response.Status(), response.Reason(), formatStatus(check.Status))
	}
	if check.Body == "" {
		return nil
	}
	found, err := bodyContains(io.LimitReader(&response.Body, maxCheckedBody), check.Body)
	switch {
	case err != nil:
		return fmt.Errorf("the app answered %s with an incomplete body: %w", check.Path, err)
	case !found:
		return fmt.Errorf("the app answered %s without %q in the body", check.Path, check.Body)
	}
	return nil
}

// formatStatus returns the accepted status codes in the form of the setting.
func formatStatus(accepted []config.StatusRange) string {
	var texts []string
	for _, status := range accepted {
		texts = append(texts, status.String())
	}
	return strings.Join(texts, ",")
}

const (
	// maxCheckedBody is how many bytes of a body a health check reads.
	maxCheckedBody = 64 << 10
	// bodyReadSize is the size of a read of a body.
	bodyReadSize = 4 << 10
)

// bodyContains reports whether text occurs in body. It stops reading once it has found text, so it does not wait
// for the end of a stream.
func bodyContains(body io.Reader, text string) (bool, error) {
	var data []byte
	for {
		searchFrom := max(len(data)-len(text)+1, 0) // text may begin in the previous read
		data = slices.Grow(data, bodyReadSize)
		n, err := body.Read(data[len(data) : len(data)+bodyReadSize])
		data = data[:len(data)+n]
		switch {
		case bytes.Contains(data[searchFrom:], []byte(text)):
			return true, nil
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
	}
}

// connectChecker returns a health check that only connects to the app. The app is usually on the same machine, and
// is checked twice a second. Dialing with package net would dominate the CPU usage of an idle node.
func connectChecker(dial func(context.Context) (net.Conn, error), addr string) func(context.Context) error {
	addrPort, _ := netip.ParseAddrPort(addr) // fails for a name or a Unix socket
	isLocal := addrPort.Addr().IsLoopback()  // a connect to another machine takes longer
	return func(ctx context.Context) error {
		if isLocal && rawio.Connects(addrPort) {
			return nil
		}
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// maxInterim is the maximum number of interim (1xx) responses before the final response.
const maxInterim = 16

// sendHealthCheck sends a request and reads the header section of its final response. It uses the parser
// of the proxy, so a response that the proxy corrects for clients is not an error.
func sendHealthCheck(conn net.Conn, request *http.Request) (*h1.Response, error) {
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	parser, response := h1.NewConn(conn, h1.Options{}), &h1.Response{}
	for range maxInterim {
		if err := parser.ReadResponse(response, []byte(request.Method)); err != nil {
			return nil, err
		}
		if !response.IsInterim() {
			return response, nil
		}
	}
	return nil, errors.New("too many interim responses")
}
