package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"unicode/utf8"

	"shardway/internal/rawio"
	"shardway/node/disk"
	"shardway/proxy/h1"
)

// instanceHeader is the response header with which the app identifies its process.
const instanceHeader = "Shardway-App-Instance"

// appInstance is the process name in the response to the last health check.
type appInstance struct{ name atomic.Pointer[string] }

// get returns the name. It is empty if the last check got no response or no valid name.
func (a *appInstance) get() string {
	if name := a.name.Load(); name != nil {
		return *name
	}
	return ""
}

// set stores the name; nil means none. It quotes a name that is not UTF-8: the data directory
// stores only UTF-8, and a name that was read back differently would count as a restart of the
// app.
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

// appChecker returns the health check of the app that dial connects to. With a path it sends a GET
// request, and a status below 400 means healthy. Without a path it only connects. addr is the Host
// header; for a Unix socket it is empty, and the header is localhost. Each check sets instance.
func appChecker(dial func(context.Context) (net.Conn, error), addr, path string, instance *appInstance) func(context.Context) error {
	if path == "" {
		return connectChecker(dial, addr)
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(addr, "localhost")+path, http.NoBody)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", "shardway-health")
		request.Close = true
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
			return cmp.Or(ctx.Err(), fmt.Errorf("the app answered %s with no response: %w", path, err))
		}
		name := string(response.Value(instanceHeader))
		instance.set(&name)
		if response.Status() >= http.StatusBadRequest {
			return fmt.Errorf("the app answered %s with %d %s", path, response.Status(), response.Reason())
		}
		return nil
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
