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

// instanceHeader is the response header by which the app names its process.
const instanceHeader = "Shardway-App-Instance"

// appInstance is what the app called its process in the response to the last check.
type appInstance struct{ name atomic.Pointer[string] }

// get returns the name, empty if the last check met no response or no usable name.
func (a *appInstance) get() string {
	if p := a.name.Load(); p != nil {
		return *p
	}
	return ""
}

// set takes the name; nil means none. A name that is not UTF-8 is quoted, because the data directory
// keeps UTF-8 only, and a name that comes back changed would count as a restart.
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

// appChecker returns the check of the app that dial reaches: GET of a path, good
// below 400, or without a path only a connect. The address is what a Host tells
// the app; one on a Unix socket is told localhost. Each check sets named.
func appChecker(dial func(context.Context) (net.Conn, error), addr, path string, named *appInstance) func(context.Context) error {
	if path == "" {
		// An app is on the same machine as a rule, and is asked twice a second: by package
		// net that shows in what a node takes that has no requests.
		at, _ := netip.ParseAddrPort(addr) // else it is a name, or a Unix socket
		near := at.Addr().IsLoopback()     // elsewhere no connection is there at once
		return func(ctx context.Context) error {
			if near && rawio.Connects(at) {
				return nil
			}
			c, err := dial(ctx)
			if err != nil {
				return err
			}
			return c.Close()
		}
	}
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(addr, "localhost")+path, http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("User-Agent", "shardway-health")
		r.Close = true
		named.set(nil)
		// A connection of its own each time: a check shall find out whether the
		// app still accepts any. No proxy from the environment stands between.
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		res, err := askHealth(conn, r)
		if err != nil {
			return cmp.Or(ctx.Err(), fmt.Errorf("the app answered %s with no response: %w", path, err))
		}
		name := string(res.Value(instanceHeader))
		named.set(&name)
		if res.Status() >= http.StatusBadRequest {
			return fmt.Errorf("the app answered %s with %d %s", path, res.Status(), res.Reason())
		}
		return nil
	}
}

// maxInterim is how many interim responses a check reads before the final one.
const maxInterim = 16

// askHealth sends a request and reads the header section of its final response, as the proxy reads
// responses: what is repaired for clients is no error here.
func askHealth(conn net.Conn, r *http.Request) (*h1.Response, error) {
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	c, res := h1.NewConn(conn, h1.Options{}), &h1.Response{}
	for range maxInterim {
		if err := c.ReadResponse(res, []byte(r.Method)); err != nil {
			return nil, err
		}
		if !res.Interim() {
			return res, nil
		}
	}
	return nil, errors.New("too many interim responses")
}
